"""Models of a few kilobytes, one for each task, made from configurations with random weights: nothing is downloaded.

    python tiny.py FOLDER [TASK ...]

Works with transformers 4.57 and 5; needs numpy, Pillow and PyTorch, and diffusers for text-to-image.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

TEXT = """
the a an is are in on and of to my your his her i you he she it we live lives work works name city berlin paris
london river house tree cat dog red blue green one two three what where who how old new good bad was born very
hello world yes no . , ? ! : translate english german french summarize
"""
WORDS = TEXT.split()
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "<s>", "</s>"]

SMALL = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 64,
}
VISION = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "image_size": 16,
    "patch_size": 8,
}


def vocabulary() -> dict[str, int]:
    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    entries = [*SPECIAL, *WORDS, *letters, *(f"##{letter}" for letter in letters), *map(str, range(10))]
    return {entry: place for place, entry in enumerate(dict.fromkeys(entries))}


def tokenizer(kind: str = "bert"):
    """A WordPiece tokenizer over WORDS; kind: bert ([CLS] … [SEP]), t5 (… </s>) or gpt (nothing added)."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    vocab = vocabulary()
    made = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    if kind == "bert":
        ends = [("[CLS]", vocab["[CLS]"]), ("[SEP]", vocab["[SEP]"])]
        made.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ends
        )
    if kind == "t5":
        made.post_processor = processors.TemplateProcessing(
            single="$A </s>", pair="$A </s> $B:1 </s>:1", special_tokens=[("</s>", vocab["</s>"])]
        )
    return PreTrainedTokenizerFast(
        tokenizer_object=made,
        unk_token="[UNK]",
        pad_token="[PAD]",
        cls_token="[CLS]" if kind == "bert" else None,
        sep_token="[SEP]" if kind == "bert" else None,
        mask_token="[MASK]",
        bos_token="<s>",
        eos_token="</s>",
        model_max_length=64,
        model_input_names=["input_ids", *(["token_type_ids"] if kind == "bert" else []), "attention_mask"],
    )


def image_processor():
    from transformers import ViTImageProcessor

    return ViTImageProcessor(size={"height": 16, "width": 16})


def _seeded() -> None:
    import torch

    torch.manual_seed(0)


def _save(folder: Path, *parts) -> None:
    for part in parts:
        part.save_pretrained(folder)


def _bert(folder: Path, name: str, **more) -> None:
    import transformers

    config = transformers.BertConfig(vocab_size=len(vocabulary()), **SMALL, **more)
    _save(folder, getattr(transformers, name)(config), tokenizer())


def text_classification(folder: Path) -> None:
    _bert(folder, "BertForSequenceClassification", id2label={0: "NEGATIVE", 1: "POSITIVE"})


def zero_shot_classification(folder: Path) -> None:
    labels = {0: "contradiction", 1: "neutral", 2: "entailment"}
    _bert(folder, "BertForSequenceClassification", id2label=labels, label2id={name: k for k, name in labels.items()})


def token_classification(folder: Path) -> None:
    _bert(folder, "BertForTokenClassification", id2label={0: "PER", 1: "LOC"})


def question_answering(folder: Path) -> None:
    _bert(folder, "BertForQuestionAnswering")


def fill_mask(folder: Path) -> None:
    _bert(folder, "BertForMaskedLM")


def feature_extraction(folder: Path) -> None:
    _bert(folder, "BertModel")


def sentence_embeddings(folder: Path) -> None:
    """As sentence-transformers writes them: encoder, mean pooling, a dense layer, length 1."""
    import torch
    from safetensors.torch import save_file

    feature_extraction(folder)
    kinds = ("Transformer", "Pooling", "Dense", "Normalize")
    modules = [
        {
            "idx": place,
            "name": str(place),
            "path": f"{place}_{kind}" if place else "",
            "type": f"sentence_transformers.models.{kind}",
        }
        for place, kind in enumerate(kinds)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling/config.json").write_text(
        json.dumps({"word_embedding_dimension": 16, "pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False})
    )
    (folder / "2_Dense").mkdir()
    dense = {
        "in_features": 16,
        "out_features": 4,
        "bias": True,
        "activation_function": "torch.nn.modules.activation.Tanh",
    }
    (folder / "2_Dense/config.json").write_text(json.dumps(dense))
    save_file(
        {"linear.weight": torch.randn(4, 16), "linear.bias": torch.randn(4)}, folder / "2_Dense/model.safetensors"
    )
    (folder / "3_Normalize").mkdir()
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 12, "do_lower_case": False}))


def table_question_answering(folder: Path) -> None:
    import transformers

    config = transformers.TapasConfig(
        vocab_size=len(vocabulary()), **SMALL, type_vocab_sizes=[3, 256, 256, 2, 256, 256, 10], select_one_column=True
    )
    _save(folder, transformers.TapasForQuestionAnswering(config))
    vocab = folder / "vocab.txt"
    vocab.write_text("\n".join(["[EMPTY]" if entry == "<s>" else entry for entry in vocabulary()]))
    made = transformers.TapasTokenizer(str(vocab), model_max_length=64)
    made.save_pretrained(folder)


def _t5(folder: Path, **more) -> None:
    import transformers

    config = transformers.T5Config(
        vocab_size=len(vocabulary()),
        d_model=16,
        d_kv=8,
        d_ff=32,
        num_layers=2,
        num_heads=2,
        decoder_start_token_id=0,
        pad_token_id=0,
        eos_token_id=vocabulary()["</s>"],
    )
    _save(folder, transformers.T5ForConditionalGeneration(config), tokenizer("t5"))
    if more:  # the library drops what it no longer knows
        path = folder / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **more}))


def text2text_generation(folder: Path) -> None:
    _t5(folder)


def summarization(folder: Path) -> None:
    _t5(folder, task_specific_params={"summarization": {"max_length": 12, "num_beams": 2, "prefix": "summarize : "}})


def translation(folder: Path) -> None:
    parameters = {
        "translation_en_to_de": {"max_length": 10, "num_beams": 3, "prefix": "translate english to german : "}
    }
    _t5(folder, task_specific_params=parameters)


CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message.role }} : {{ message.content }} {% endfor %}"
    "{% if add_generation_prompt %}assistant : {% endif %}"
)


def _gpt(folder: Path, template: str | None) -> None:
    import transformers

    made = tokenizer("gpt")
    made.chat_template = template
    config = transformers.GPT2Config(
        vocab_size=len(vocabulary()),
        n_embd=16,
        n_layer=2,
        n_head=2,
        n_positions=128,
        bos_token_id=made.bos_token_id,
        eos_token_id=made.eos_token_id,
    )
    _save(folder, transformers.GPT2LMHeadModel(config), made)


def text_generation(folder: Path) -> None:
    _gpt(folder, CHAT_TEMPLATE)


def conversational(folder: Path) -> None:
    """Older than chat templates."""
    _gpt(folder, None)


def image_classification(folder: Path) -> None:
    import transformers

    config = transformers.ViTConfig(**VISION, id2label={0: "cat", 1: "dog"})
    _save(folder, transformers.ViTForImageClassification(config), image_processor())


def image_segmentation(folder: Path) -> None:
    import transformers

    config = transformers.SegformerConfig(
        num_encoder_blocks=2,
        depths=[1, 1],
        sr_ratios=[2, 1],
        hidden_sizes=[8, 16],
        patch_sizes=[7, 3],
        strides=[4, 2],
        num_attention_heads=[1, 2],
        mlp_ratios=[2, 2],
        decoder_hidden_size=16,
        id2label={0: "road", 1: "sky"},
    )
    processor = transformers.SegformerImageProcessor(size={"height": 32, "width": 32})
    _save(folder, transformers.SegformerForSemanticSegmentation(config), processor)


def object_detection(folder: Path) -> None:
    import transformers

    config = transformers.YolosConfig(
        **{**VISION, "image_size": [32, 32]}, num_detection_tokens=5, id2label={0: "cat", 1: "dog"}
    )
    size = {"shortest_edge": 32, "longest_edge": 32}
    _save(folder, transformers.YolosForObjectDetection(config), transformers.YolosImageProcessor(size=size))


def depth_estimation(folder: Path) -> None:
    import transformers

    config = transformers.DPTConfig(
        **{**VISION, "image_size": 32, "num_hidden_layers": 4},
        backbone_out_indices=[0, 1, 2, 3],
        neck_hidden_sizes=[8, 8, 8, 8],
        fusion_hidden_size=8,
        is_hybrid=False,
    )
    processor = transformers.DPTImageProcessor(size={"height": 32, "width": 32})
    _save(folder, transformers.DPTForDepthEstimation(config), processor)


def image_to_text(folder: Path) -> None:
    import transformers

    vocab = vocabulary()
    decoder = transformers.GPT2Config(
        vocab_size=len(vocab),
        n_embd=16,
        n_layer=2,
        n_head=2,
        n_positions=300,
        add_cross_attention=True,
        is_decoder=True,
    )
    config = transformers.VisionEncoderDecoderConfig.from_encoder_decoder_configs(
        transformers.ViTConfig(**VISION), decoder
    )
    config.decoder_start_token_id = config.bos_token_id = vocab["<s>"]
    config.pad_token_id = 0
    config.eos_token_id = vocab["</s>"]
    _save(folder, transformers.VisionEncoderDecoderModel(config=config), tokenizer("gpt"), image_processor())


def visual_question_answering(folder: Path) -> None:
    import transformers

    config = transformers.ViltConfig(
        vocab_size=len(vocabulary()), **{**VISION, "image_size": 32}, id2label={0: "one", 1: "two", 2: "red"}
    )
    processor = transformers.ViltImageProcessor(size={"shortest_edge": 32})
    _save(folder, transformers.ViltForQuestionAnswering(config), tokenizer(), processor)


def document_question_answering(folder: Path) -> None:
    import transformers

    config = transformers.LayoutLMConfig(vocab_size=len(vocabulary()), max_2d_position_embeddings=1024, **SMALL)
    _save(folder, transformers.LayoutLMForQuestionAnswering(config), tokenizer())


def zero_shot_image_classification(folder: Path) -> None:
    import transformers

    text = {**SMALL, "vocab_size": len(vocabulary()), "bos_token_id": 5, "eos_token_id": 6}
    config = transformers.CLIPConfig(text_config=text, vision_config=VISION, projection_dim=8)
    processor = transformers.CLIPImageProcessor(
        size={"shortest_edge": 16}, crop_size={"height": 16, "width": 16}, do_center_crop=True
    )
    _save(folder, transformers.CLIPModel(config), tokenizer("t5"), processor)


def image_to_image(folder: Path) -> None:
    import transformers

    config = transformers.Swin2SRConfig(
        image_size=16,
        patch_size=1,
        embed_dim=8,
        depths=[1],
        num_heads=[1],
        window_size=4,
        upscale=2,
        resi_connection="1conv",
    )
    _save(folder, transformers.Swin2SRForImageSuperResolution(config), transformers.Swin2SRImageProcessor(pad_size=4))


def _wav2vec2(name: str, folder: Path, *parts, **more) -> None:
    import transformers

    config = transformers.Wav2Vec2Config(
        **SMALL,
        conv_dim=[16, 16],
        conv_stride=[5, 4],
        conv_kernel=[10, 8],
        num_feat_extract_layers=2,
        num_conv_pos_embeddings=4,
        num_conv_pos_embedding_groups=2,
        classifier_proj_size=8,
        **more,
    )
    extractor = transformers.Wav2Vec2FeatureExtractor(sampling_rate=16000)
    _save(folder, getattr(transformers, name)(config), extractor, *parts)


def audio_classification(folder: Path) -> None:
    _wav2vec2("Wav2Vec2ForSequenceClassification", folder, id2label={0: "up", 1: "down"})
    # Its name ends as a text classifier's does; what the table goes by is the audio task's end.


def automatic_speech_recognition(folder: Path) -> None:
    import transformers

    letters = ["<pad>", "<s>", "</s>", "<unk>", "|", *(chr(code) for code in range(ord("A"), ord("Z") + 1))]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.json").write_text(json.dumps({letter: place for place, letter in enumerate(letters)}))
    made = transformers.Wav2Vec2CTCTokenizer(str(folder / "vocab.json"))
    _wav2vec2("Wav2Vec2ForCTC", folder, made, vocab_size=len(letters), pad_token_id=0)


def text_to_audio(folder: Path) -> None:
    import transformers

    alphabet = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    letters = {letter: place for place, letter in enumerate(["_", *alphabet, " ", "<pad>", "<unk>"])}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.json").write_text(json.dumps(letters))
    config = transformers.VitsConfig(
        vocab_size=len(letters) + 1,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        ffn_dim=32,
        flow_size=16,
        spectrogram_bins=9,
        upsample_initial_channel=16,
        upsample_rates=[4, 4],
        upsample_kernel_sizes=[8, 8],
        resblock_kernel_sizes=[3],
        resblock_dilation_sizes=[[1, 3]],
        prior_encoder_num_flows=1,
        prior_encoder_num_wavenet_layers=1,
        posterior_encoder_num_wavenet_layers=1,
        duration_predictor_num_flows=1,
        duration_predictor_filter_channels=16,
        depth_separable_num_layers=1,
        use_stochastic_duration_prediction=False,
    )
    made = transformers.VitsTokenizer(str(folder / "vocab.json"), phonemize=False)
    _save(folder, transformers.VitsModel(config), made)


def text_to_image(folder: Path) -> None:
    import diffusers
    import transformers

    text = transformers.CLIPTextModel(
        transformers.CLIPTextConfig(
            **{**SMALL, "max_position_embeddings": 77}, vocab_size=len(vocabulary()), bos_token_id=5, eos_token_id=6
        )
    )
    unet = diffusers.UNet2DConditionModel(
        sample_size=8,
        block_out_channels=(8, 16),
        layers_per_block=1,
        norm_num_groups=4,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        cross_attention_dim=16,
        attention_head_dim=4,
    )
    vae = diffusers.AutoencoderKL(block_out_channels=(8,), norm_num_groups=4, latent_channels=4)
    made = tokenizer("t5")
    made.model_max_length = 77
    diffusers.StableDiffusionPipeline(
        vae=vae,
        text_encoder=text,
        tokenizer=made,
        unet=unet,
        scheduler=diffusers.DDIMScheduler(),
        safety_checker=None,
        feature_extractor=None,
    ).save_pretrained(folder)


MODELS: dict[str, Callable[[Path], None]] = {
    "text-classification": text_classification,
    "zero-shot-classification": zero_shot_classification,
    "token-classification": token_classification,
    "question-answering": question_answering,
    "fill-mask": fill_mask,
    "feature-extraction": feature_extraction,
    "sentence-embeddings": sentence_embeddings,
    "table-question-answering": table_question_answering,
    "text2text-generation": text2text_generation,
    "summarization": summarization,
    "translation": translation,
    "text-generation": text_generation,
    "conversational": conversational,
    "image-classification": image_classification,
    "image-segmentation": image_segmentation,
    "object-detection": object_detection,
    "depth-estimation": depth_estimation,
    "image-to-text": image_to_text,
    "image-to-image": image_to_image,
    "visual-question-answering": visual_question_answering,
    "document-question-answering": document_question_answering,
    "zero-shot-image-classification": zero_shot_image_classification,
    "audio-classification": audio_classification,
    "automatic-speech-recognition": automatic_speech_recognition,
    "text-to-audio": text_to_audio,
    "text-to-image": text_to_image,
}


def make(task: str, folder: Path) -> Path:
    """The model of a task, in a folder that is made for it."""
    folder.mkdir(parents=True, exist_ok=True)
    _seeded()
    MODELS[task](folder)
    return folder


if __name__ == "__main__":
    for name in sys.argv[2:] or MODELS:
        make(name, Path(sys.argv[1]) / name)
