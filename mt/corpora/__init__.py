"""Where corpora come from: downloads, archives, splits of a publisher's file, and generated phrases."""
