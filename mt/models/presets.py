"""Named combinations: the recipe's own keys are laid over one. Sources stand beside each; sizes are the papers'."""

from __future__ import annotations

from typing import Any

PRESETS: dict[str, dict[str, Any]] = {
    # Transformer-Tiny of Wu et al. 2021, "Good for Misconceived Reasons", section 4.1.
    "transformer_tiny": {
        "encoder": {"layers": 4},
        "decoder": {"layers": 4},
        "dim": 128,
        "ffn_dim": 256,
        "heads": 4,
        "dropout": 0.3,
    },
    "transformer_small": {"dim": 512, "ffn_dim": 1024, "heads": 4, "dropout": 0.3},
    # Vaswani et al. 2017, table 3.
    "transformer_base": {"dim": 512, "ffn_dim": 2048, "heads": 8, "dropout": 0.1},
    "transformer_big": {"dim": 1024, "ffn_dim": 4096, "heads": 16, "dropout": 0.3},
    # Sutskever et al. 2014, "Sequence to Sequence Learning with Neural Networks", section 3.4.
    "seq2seq_lstm": {
        "encoder": {"type": "lstm", "layers": 4, "reverse_source": True},
        "decoder": {"type": "lstm", "layers": 4, "context": "none", "initial": "state"},
        "dim": 1000,
        "dropout": 0.0,
        "tie": "none",
        "init": "uniform",
        "init_scale": 0.08,
    },
    # Cho et al. 2014, "Learning Phrase Representations using RNN Encoder-Decoder", appendix A.
    "seq2seq_gru": {
        "encoder": {"type": "gru", "layers": 1},
        "decoder": {"type": "gru", "layers": 1, "context": "summary", "initial": "summary", "maxout": True},
        "dim": 1000,
        "dropout": 0.0,
        "tie": "none",
        "init": "normal",
        "init_scale": 0.01,
    },
    # Bahdanau et al. 2014, "Neural Machine Translation by Jointly Learning to Align and Translate", appendices A and B.
    "rnnsearch": {
        "encoder": {"type": "gru", "layers": 1, "bidirectional": "all"},
        "decoder": {
            "type": "gru",
            "layers": 1,
            "context": "bottom",
            "attention": "additive",
            "initial": "summary",
            "maxout": True,
        },
        "dim": 1000,
        "dropout": 0.0,
        "tie": "none",
        "init": "normal",
        "init_scale": 0.01,
    },
    # Luong et al. 2015, "Effective Approaches to Attention-based Neural Machine Translation", section 4.1.
    "luong_global": {
        "encoder": {"type": "lstm", "layers": 4, "reverse_source": True},
        "decoder": {
            "type": "lstm",
            "layers": 4,
            "context": "top",
            "attention": "general",
            "input_feeding": True,
            "initial": "state",
        },
        "dim": 1000,
        "dropout": 0.2,
        "tie": "none",
        "init": "uniform",
        "init_scale": 0.1,
    },
    # The same with its best local attention (table 4): predicted centres, windows of 10 words on each side.
    "luong_local": {
        "encoder": {"type": "lstm", "layers": 4, "reverse_source": True},
        "decoder": {
            "type": "lstm",
            "layers": 4,
            "context": "top",
            "attention": "general",
            "window": "local_p",
            "window_size": 10,
            "input_feeding": True,
            "initial": "state",
        },
        "dim": 1000,
        "dropout": 0.2,
        "tie": "none",
        "init": "uniform",
        "init_scale": 0.1,
    },
    # Wu et al. 2016, "Google's Neural Machine Translation System", section 3.
    "gnmt": {
        "encoder": {"type": "lstm", "layers": 8, "bidirectional": "first", "residual": True},
        "decoder": {
            "type": "lstm",
            "layers": 8,
            "context": "bottom",
            "attention": "additive",
            "initial": "state",
            "residual": True,
        },
        "dim": 1024,
        "dropout": 0.2,
        "tie": "none",
        "init": "uniform",
        "init_scale": 0.04,
    },
    # Cheng et al. 2016, "Long Short-Term Memory-Networks for Machine Reading", section 4: shallow attention fusion.
    "intra_attention": {
        "encoder": {"type": "intra_attention", "layers": 1},
        "decoder": {
            "type": "intra_attention",
            "layers": 1,
            "context": "top",
            "attention": "concat",
            "initial": "state",
        },
        "dim": 512,
        "dropout": 0.2,
        "tie": "none",
    },
    # Parikh et al. 2016, "A Decomposable Attention Model", section 3, as an encoder: what remains without order.
    "decomposable": {
        "encoder": {"type": "decomposable", "layers": 1},
        "decoder": {"type": "lstm", "layers": 1, "context": "top", "attention": "general", "initial": "summary"},
        "dim": 512,
        "ffn_dim": 1024,
        "dropout": 0.2,
        "tie": "none",
    },
    # What large language models made of the Transformer: Xiong et al. 2020, Zhang and Sennrich 2019, Su et al. 2021,
    # Shazeer 2020, Ainslie et al. 2023, no biases (Chowdhery et al. 2022). ffn_dim is 8/3 D, for SwiGLU's third matrix.
    "modern": {
        "dim": 512,
        "ffn_dim": 1376,
        "heads": 8,
        "kv_heads": 2,
        "norm": "rms",
        "norm_position": "pre",
        "positions": "rotary",
        "activation": "swiglu",
        "bias": False,
        "dropout": 0.1,
    },
    # Radford et al. 2018 for translation: source, end mark, begin mark, target. With train.objective language_model the
    # source is learned too.
    "decoder_only": {
        "encoder": {"type": "none"},
        "decoder": {"type": "language_model", "layers": 12, "prefix": "causal"},
        "dim": 512,
        "ffn_dim": 2048,
        "heads": 8,
        "norm_position": "pre",
        "activation": "gelu",
        "dropout": 0.1,
    },
    # Raffel et al. 2020, "Exploring the Limits of Transfer Learning", section 3.2.1.
    "prefix_lm": {
        "encoder": {"type": "none"},
        "decoder": {"type": "language_model", "layers": 12, "prefix": "full"},
        "dim": 512,
        "ffn_dim": 2048,
        "heads": 8,
        "norm_position": "pre",
        "activation": "gelu",
        "dropout": 0.1,
    },
    # Kasai et al. 2021, "Deep Encoder, Shallow Decoder", section 4: 12 + 1 layers.
    "deep_shallow": {
        "encoder": {"layers": 12},
        "decoder": {"layers": 1},
        "dim": 512,
        "ffn_dim": 2048,
        "heads": 8,
        "norm_position": "pre",
        "dropout": 0.1,
    },
    # The same with the SSRU of Kim et al. 2019, "From Research to Production and Back".
    "deep_shallow_ssru": {
        "encoder": {"layers": 12},
        "decoder": {"type": "ssru", "layers": 1},
        "dim": 512,
        "ffn_dim": 2048,
        "heads": 8,
        "norm_position": "pre",
        "dropout": 0.1,
    },
    # Chen et al. 2018, "The Best of Both Worlds", section 5; Google Translate (Caswell and Liang 2020). The output
    # layer sees what was attended to (section 4.1), here by a maxout; without that path attention is learnt late.
    "hybrid": {
        "encoder": {"type": "transformer", "layers": 6},
        "decoder": {
            "type": "lstm",
            "layers": 2,
            "context": "bottom",
            "attention": "additive",
            "heads": 4,
            "initial": "summary",
            "maxout": True,
        },
        "dim": 512,
        "ffn_dim": 2048,
        "heads": 8,
        "norm_position": "pre",
        "dropout": 0.1,
        "tie": "none",
    },
}
