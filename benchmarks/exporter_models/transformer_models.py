"""Small transformers with random weights: through ``torch.onnx.export`` and through optimum, merged decoders too."""

from __future__ import annotations

import inspect
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from exporter_models import Maker, Shapes

BATCH, TOKENS, PAST, WIDTH, HEADS, LAYERS, VOCABULARY = 1, 6, 4, 32, 4, 2, 99

TEXT = {"vocab_size": VOCABULARY, "hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS}
SIZES = {**TEXT, "intermediate_size": 64, "max_position_embeddings": 64}
SEEN = {"hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "intermediate_size": 64}
NO_TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}


def _configurations() -> dict[str, Any]:
    import transformers as t

    return {
        "bert": t.BertConfig(**SIZES),
        "roberta": t.RobertaConfig(**SIZES, **NO_TOKENS),
        "electra": t.ElectraConfig(**SIZES, embedding_size=WIDTH),
        "albert": t.AlbertConfig(**SIZES, embedding_size=16),
        "distilbert": t.DistilBertConfig(vocab_size=VOCABULARY, dim=WIDTH, n_layers=LAYERS, n_heads=HEADS),
        "deberta": t.DebertaV2Config(
            **SIZES, relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=8, pooler_hidden_size=WIDTH
        ),
        "mpnet": t.MPNetConfig(**SIZES, **NO_TOKENS),
        "gpt2": t.GPT2Config(vocab_size=VOCABULARY, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS, n_positions=64),
        "llama": t.LlamaConfig(**SIZES, num_key_value_heads=2, **NO_TOKENS),
        "mistral": t.MistralConfig(**SIZES, num_key_value_heads=2, **NO_TOKENS),
        "qwen2": t.Qwen2Config(**SIZES, num_key_value_heads=2, **NO_TOKENS),
        "gemma": t.GemmaConfig(**SIZES, num_key_value_heads=2, head_dim=8, **NO_TOKENS),
        "opt": t.OPTConfig(**TEXT, ffn_dim=64, word_embed_proj_dim=WIDTH, max_position_embeddings=64, **NO_TOKENS),
        "t5": t.T5Config(
            vocab_size=VOCABULARY, d_model=WIDTH, d_kv=8, d_ff=64, num_layers=LAYERS, num_heads=HEADS,
            decoder_start_token_id=0, **NO_TOKENS,
        ),
        "bart": t.BartConfig(
            vocab_size=VOCABULARY, d_model=WIDTH, encoder_layers=1, decoder_layers=1, encoder_attention_heads=HEADS,
            decoder_attention_heads=HEADS, encoder_ffn_dim=64, decoder_ffn_dim=64, max_position_embeddings=64,
            **NO_TOKENS,
        ),
        "whisper": t.WhisperConfig(
            vocab_size=VOCABULARY, d_model=WIDTH, encoder_layers=1, decoder_layers=1, encoder_attention_heads=HEADS,
            decoder_attention_heads=HEADS, encoder_ffn_dim=64, decoder_ffn_dim=64, num_mel_bins=16,
            max_source_positions=1500, max_target_positions=32, decoder_start_token_id=1, **NO_TOKENS,
        ),
        "vit": t.ViTConfig(**SEEN, image_size=32, patch_size=8),
        "deit": t.DeiTConfig(**SEEN, image_size=32, patch_size=8),
        "swin": t.SwinConfig(image_size=32, patch_size=4, embed_dim=16, depths=[1, 1], num_heads=[2, 2], window_size=4),
        "convnext": t.ConvNextConfig(hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], image_size=32),
        "resnet": t.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic"),
        "mobilenet": t.MobileNetV2Config(image_size=32, depth_multiplier=0.25),
        "segformer": t.SegformerConfig(
            hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], num_attention_heads=[1, 1, 2, 2], decoder_hidden_size=16
        ),
        "clip": t.CLIPConfig(
            text_config={**SIZES, **NO_TOKENS},
            vision_config={**SEEN, "image_size": 32, "patch_size": 8},
            projection_dim=16,
        ),
        "wav2vec2": t.Wav2Vec2Config(
            **TEXT, intermediate_size=64, conv_dim=(16, 16), conv_stride=(5, 2), conv_kernel=(10, 3),
            num_feat_extract_layers=2, num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4,
        ),
    }  # fmt: skip


def _feeds(name: str) -> dict[str, Any]:
    import torch

    tokens = torch.randint(3, VOCABULARY, (BATCH, TOKENS))
    pixels = {
        "pixel_values": torch.randn(BATCH, 3, 64 if name == "segformer" else 32, 64 if name == "segformer" else 32)
    }
    text = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}
    if name == "clip":
        return {"input_ids": tokens, **pixels, "attention_mask": torch.ones_like(tokens)}
    if name in ("vit", "deit", "swin", "convnext", "resnet", "mobilenet", "segformer"):
        return pixels
    if name == "wav2vec2":
        return {"input_values": torch.randn(BATCH, 400)}
    if name == "whisper":
        return {"input_features": torch.randn(BATCH, 16, 3000), "decoder_input_ids": tokens}
    if name in ("t5", "bart"):
        return {**text, "decoder_input_ids": tokens}
    return text


def of_transformers() -> Iterator[tuple[str, Shapes, Maker]]:
    """Base models, by both exporters, with fixed sizes."""
    import torch
    import transformers

    class Positional(torch.nn.Module):
        """A model that takes its inputs in order, and gives tensors in place of its own classes."""

        def __init__(self, model: Any, names: list[str]) -> None:
            super().__init__()
            self.model, self.names = model, names

        def forward(self, *inputs: Any) -> Any:
            given = dict(zip(self.names, inputs, strict=True))
            outputs = self.model(**given, return_dict=False)
            return tuple(value for value in outputs if isinstance(value, torch.Tensor))

    def maker_of(name: str, configuration: Any, opset: int, dynamo: bool) -> Maker:
        def maker(path: Path) -> None:
            configuration.use_cache = False
            configuration._attn_implementation = "eager"
            torch.manual_seed(0)
            model = transformers.AutoModel.from_config(configuration).eval()
            known = inspect.signature(model.forward).parameters
            feeds = {key: value for key, value in _feeds(name).items() if key in known}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                torch.onnx.export(
                    Positional(model, list(feeds)),
                    tuple(feeds.values()),
                    str(path),
                    input_names=list(feeds),
                    opset_version=opset,
                    external_data=False,
                    dynamo=dynamo,
                )

        return maker

    for name, configuration in _configurations().items():
        yield f"{name}_script_14", {}, maker_of(name, configuration, 14, False)
        yield f"{name}_dynamo_20", {}, maker_of(name, configuration, 20, True)


def of_optimum() -> Iterator[tuple[str, Shapes, Maker]]:
    """What ``optimum-cli export onnx`` writes, file by file: encoders, decoders with a past, merged decoders."""
    import optimum.exporters.onnx as exporter
    import transformers

    def maker_of(configuration: Any, model_class: str, task: str, file: str) -> Maker:
        def maker(path: Path) -> None:
            import onnx
            import torch

            torch.manual_seed(0)
            model = getattr(transformers, model_class).from_config(configuration)
            with tempfile.TemporaryDirectory() as folder:
                exporter.onnx_export_from_model(model, Path(folder), task=task, do_validation=False, device="cpu")
                onnx.save(onnx.load(Path(folder) / file), path)

        return maker

    tasks = {
        "feature-extraction": "AutoModel",
        "text-classification": "AutoModelForSequenceClassification",
        "token-classification": "AutoModelForTokenClassification",
        "question-answering": "AutoModelForQuestionAnswering",
        "fill-mask": "AutoModelForMaskedLM",
        "text-generation-with-past": "AutoModelForCausalLM",
        "text-generation": "AutoModelForCausalLM",
        "text2text-generation-with-past": "AutoModelForSeq2SeqLM",
        "automatic-speech-recognition-with-past": "AutoModelForSpeechSeq2Seq",
        "automatic-speech-recognition": "AutoModelForCTC",
        "image-classification": "AutoModelForImageClassification",
        "semantic-segmentation": "AutoModelForSemanticSegmentation",
        "zero-shot-image-classification": "AutoModelForZeroShotImageClassification",
    }
    text = {name: [BATCH, TOKENS] for name in ("input_ids", "attention_mask", "token_type_ids", "position_ids")}
    encoders = [
        ("bert", "feature-extraction"), ("bert", "text-classification"), ("roberta", "token-classification"),
        ("distilbert", "question-answering"), ("albert", "fill-mask"), ("deberta", "text-classification"),
        ("mpnet", "feature-extraction"), ("electra", "text-classification"), ("gpt2", "text-generation"),
        ("llama", "text-generation"),
    ]  # fmt: skip
    configurations = _configurations()
    for name, task in encoders:
        yield f"{name}_{task}", text, maker_of(configurations[name], tasks[task], task, "model.onnx")
    for name, task in (("vit", "image-classification"), ("swin", "image-classification"),
                       ("convnext", "image-classification"), ("mobilenet", "image-classification"),
                       ("segformer", "semantic-segmentation")):  # fmt: skip
        side = 64 if name == "segformer" else 32
        shapes = {"pixel_values": [BATCH, 3, side, side]}
        yield f"{name}_{task}", shapes, maker_of(configurations[name], tasks[task], task, "model.onnx")
    waves = {"input_values": [BATCH, 400]}
    task = "automatic-speech-recognition"
    yield f"wav2vec2_{task}", waves, maker_of(configurations["wav2vec2"], tasks[task], task, "model.onnx")
    task = "zero-shot-image-classification"
    both = {**text, "pixel_values": [BATCH, 3, 32, 32]}
    yield f"clip_{task}", both, maker_of(configurations["clip"], tasks[task], task, "model.onnx")
    for name in ("gpt2", "llama", "mistral", "qwen2", "opt"):
        task = "text-generation-with-past"
        heads = 2 if name in ("llama", "mistral", "qwen2") else HEADS
        past = {
            f"past_key_values.{layer}.{part}": [BATCH, heads, PAST, WIDTH // HEADS]
            for layer in range(LAYERS) for part in ("key", "value")
        }  # fmt: skip
        step = {"input_ids": [BATCH, 1], "position_ids": [BATCH, 1], "attention_mask": [BATCH, PAST + 1], **past}
        yield f"{name}_{task}", step, maker_of(configurations[name], tasks[task], task, "model.onnx")
    for name, task in (
        ("t5", "text2text-generation-with-past"),
        ("bart", "text2text-generation-with-past"),
        ("whisper", "automatic-speech-recognition-with-past"),
    ):
        make = configurations[name], tasks[task], task
        hidden = [BATCH, 1500 if name == "whisper" else TOKENS, WIDTH]
        encoder = {**text, "input_features": [BATCH, 16, 3000]}
        yield f"{name}_encoder", encoder, maker_of(*make, "encoder_model.onnx")
        layers = LAYERS if name == "t5" else 1
        past = {
            f"past_key_values.{layer}.{side}.{part}":
                [BATCH, HEADS, PAST if side == "decoder" else hidden[1], WIDTH // HEADS]
            for layer in range(layers) for side in ("decoder", "encoder") for part in ("key", "value")
        }  # fmt: skip
        first = {"input_ids": [BATCH, TOKENS], "encoder_hidden_states": hidden, "encoder_attention_mask": hidden[:2]}
        step = {**first, "input_ids": [BATCH, 1], **past}
        yield f"{name}_decoder", first, maker_of(*make, "decoder_model.onnx")
        yield f"{name}_decoder_with_past", step, maker_of(*make, "decoder_with_past_model.onnx")
        yield f"{name}_decoder_merged", step, maker_of(*make, "decoder_model_merged.onnx")
