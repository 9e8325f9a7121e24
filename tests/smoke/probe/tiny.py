"""A BERT of two layers with a vocabulary of its own, for the step serving.pipeline."""

import os

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "ship", "left", "harbour", "calm", "storm", "today", "."]
TEXTS = ["the ship left the harbour .", "storm today", "calm", "the storm left the ship ."]


def write_tokenizer(transformers, folder):
    """(config, tokenizer) of a model that fits in a few kilobytes."""
    path = os.path.join(folder, "vocab.txt")
    with open(path, "w") as file:
        file.write("\n".join(WORDS) + "\n")
    config = transformers.BertConfig(
        vocab_size=len(WORDS),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=37,
        max_position_embeddings=32,
        num_labels=3,
    )
    return config, transformers.BertTokenizer(path)


def compare(wanted, got):
    """The labels that differ, and the largest difference of scores."""
    return {
        "texts": len(got),
        "labels_different": sum(one["label"] != other["label"] for one, other in zip(wanted, got)),
        "difference": max(abs(one["score"] - other["score"]) for one, other in zip(wanted, got)),
    }
