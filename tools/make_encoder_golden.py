#!/usr/bin/env python3
"""Makes the oracles of sentence encoders.

Usage: make_encoder_golden.py FOLDER    writes tests/golden/encoder.json: what the encoder in FOLDER gives for 200 texts
       make_encoder_golden.py --tiny    writes tests/golden/tiny/encoder: a small one with random weights, and
                                        tests/golden/tiny/encoder.json: what that gives for some of the texts

A folder holds model.safetensors, config.json and vocab.txt, as `mooring pull all-minilm-l6-v2` leaves
them. Ids come from Hugging Face tokenizers, with nothing in the text taken for a special token;
vectors from Hugging Face transformers in float64, the mean over all tokens at unit length. Vectors
are stored as float16, which turns them by less than a part in a million.

Needs: numpy, torch, transformers, tokenizers, safetensors.
"""
import base64
import json
import pathlib
import random
import sys

import numpy
import safetensors.numpy
import tokenizers
import torch
import transformers

MOST_TOKENS = 256
COUNT = 200
GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden"

# Written for this file. Each column is drawn from with a fixed seed.
OPENINGS = ["My", "Our", "The", "Your", "Anna's", "That old", "Every", "No", "Some other", "Her first"]
THINGS = ["gate code", "bicycle", "train to Leipzig", "red kettle", "invoice", "garden", "sister",
          "appointment with the dentist", "password hint", "favourite novel", "harbour", "violin lesson"]
SAYINGS = ["is {n}.", "was moved to Friday, {n} o'clock.", "broke down near kilometre {n}.",
           "costs {n}.50 EUR (incl. VAT)", "has {n} strings; one of them is missing...",
           "isn't what I had expected, is it?", "arrived on the {n}th of March!", "smells of rain",
           "belongs to nobody", "needs to be watered every {n} days"]
QUESTIONS = ["What did I tell you about the {t}?", "Which number do I have to press to get in?",
             "when does my {t} begin", "WHERE IS THE {T}?!", "Do you remember who plays the {t}?",
             "how much was the {t}", "Can you remind me of the {t}, please?"]
ODD = [
    "", " ", "\t\n\r", "a", ".", "?!", "...", "0", "-1", "3.14159", "1,000,000", "100 %", "$5 + 7^2 = x|y~z`",
    "caf\u00e9 CAF\u00c9 cafe\u0301", "na\u00efve r\u00f4le, \u00dcberma\u00df, \u0141\u00f3d\u017a, \u015eanl\u0131urfa, \u0130stanbul",
    "Stra\u00dfe \u1e9e \ufb01n \u00c5ngstr\u00f6m \u212bngstr\u00f6m", "\u039f\u03b4\u03c5\u03c3\u03c3\u03b5\u03cd\u03c2 \u03a3\u03ce\u03c2",
    "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440! \u0401\u0436\u0438\u043a \u0438 \u0439\u043e\u0433", "\u4e2d\u56fd\u4eba\u6c11", "\u65e5\u672c\u8a9e\u306e\u6587\u7ae0\u3067\u3059\u3002\u30ab\u30bf\u30ab\u30ca",
    "\ud55c\uad6d\uc5b4 \ubb38\uc7a5\uc785\ub2c8\ub2e4", "\u0e20\u0e32\u0e29\u0e32\u0e44\u0e17\u0e22", "\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd", "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645 \u0643\u064e\u062a\u064e\u0628\u064e",
    "\u0939\u093f\u0928\u094d\u0926\u0940 \u092d\u093e\u0937\u093e", "emoji \U0001f600\U0001f680\u2764\ufe0f end", "zero\u200bwidth\u00adsoft", "no\u00a0break\u2003em\u3000ideographic",
    "\u201cquoted\u201d \u2014 dash \u2026 \u00abguillemets\u00bb \u00bfqu\u00e9? \u00a1s\u00ed!", "control\x01char\x7f\x85next", "replacement\ufffdcharacter",
    "[CLS] [SEP] [MASK] [PAD] [UNK] ##ing", "https://example.org/a_b?c=d&e=%20f#g", "user.name+tag@example.co.uk",
    "def f(x): return x**2  # square", "snake_case camelCase PascalCase kebab-case", "don't can't won't it's I'd we've",
    "U.S.A. e.g. i.e. Dr. Smith's", "supercalifragilisticexpialidocious antidisestablishmentarianism", "zzzzqqqqxxxx vvvvwwww",
    "a" * 99, "b" * 100, "c" * 101, "ab " * 5 + "d" * 300, "\u0439" * 100, "x" * 50 + "\u00e9" * 51, "a\nb\nc\n\nd", "   leading and trailing   ",
    "tab\tseparated\tvalues", "MiXeD cAsE tExT", "12:30 on 2024-02-29T23:59:60Z", "\u00bd \u2460 \u2167 \u00b2", "\u2126 \u212a \u00b5 \u03bc", "A\u0300\u0301\u0302B",
]


def texts():
    draw = random.Random(20)
    found = list(ODD)
    seen = set(found)
    words = " ".join(OPENINGS + THINGS + [s.format(n=7) for s in SAYINGS]).split()
    for length in (30, 120, 200, 253, 256, 400):
        found.append(" ".join(draw.choice(words) for _ in range(length)))
    while len(found) < COUNT:
        if draw.random() < 0.6:
            text = " ".join([draw.choice(OPENINGS), draw.choice(THINGS),
                             draw.choice(SAYINGS).format(n=draw.randrange(2, 9999))])
        else:
            thing = draw.choice(THINGS)
            text = draw.choice(QUESTIONS).format(t=thing, T=thing.upper())
        if text not in seen:
            seen.add(text)
            found.append(text)
    return found


# Sizes that no vector width divides, fewer positions than the longest text has tokens.
TINY = {"model_type": "bert", "hidden_size": 42, "num_attention_heads": 3, "num_hidden_layers": 2, "intermediate_size": 70,
        "max_position_embeddings": 61, "type_vocab_size": 2, "layer_norm_eps": 1e-12, "hidden_act": "gelu",
        "position_embedding_type": "absolute"}
TINY_TEXTS = 80


def tiny_words():
    letters = [chr(c) for c in range(33, 127) if not 65 <= c <= 90] + list("\u00df\u0131\u03c3\u0438\u4e2d\u65e5\u3002\u2026")
    words = sorted({w.strip(".,").lower() for w in " ".join(OPENINGS + THINGS + SAYINGS).split() if w.isalpha()})
    pieces = ["##" + c for c in letters] + ["##ing", "##ed", "##er", "##st", "##en"]
    return ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + letters + pieces + [w for w in words if len(w) > 1]


def write_tiny(folder):
    """Random weights under names with the prefix that whole models have; matrices in three types."""
    folder.mkdir(exist_ok=True)
    words = tiny_words()
    config = TINY | {"vocab_size": len(words)}
    (folder / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    draw = numpy.random.default_rng(6)
    model = transformers.BertModel(transformers.BertConfig(**{k: v for k, v in config.items() if k != "model_type"}))
    tensors = {"bert.embeddings.position_ids": numpy.arange(TINY["max_position_embeddings"], dtype=numpy.int64)[None]}
    for number, (name, value) in enumerate(sorted(model.state_dict().items())):
        if "pooler" in name or "position_ids" in name or "token_type_ids" in name:
            continue
        shape = tuple(value.shape)
        if "LayerNorm.weight" in name:
            made = 1 + 0.2 * draw.standard_normal(shape)
        else:
            made = draw.standard_normal(shape) * (0.3 if len(shape) == 1 else 1.5 / shape[-1] ** 0.5)
        kind = numpy.float16 if len(shape) == 2 and number % 3 > 0 else numpy.float32
        tensors["bert." + name] = made.astype(kind)
    safetensors.numpy.save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def make_tokenizer(folder, most=MOST_TOKENS):
    vocab = {word: id for id, word in enumerate((folder / "vocab.txt").read_text("utf-8").split("\n")[:-1])}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordPiece(vocab, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    def encode(text):
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        return [vocab["[CLS]"]] + ids[max(0, len(ids) - (most - 2)):] + [vocab["[SEP]"]]
    return encode


def load_model(folder):
    """The weights that the file holds, whatever their type, in float64."""
    config = json.loads((folder / "config.json").read_text())
    config = transformers.BertConfig(**{k: v for k, v in config.items() if k not in ("model_type", "architectures")})
    model = transformers.BertModel(config, add_pooling_layer=False).double().eval()
    config._attn_implementation = "eager"
    held = {name.removeprefix("bert."): torch.from_numpy(value.copy()).double()
            for name, value in safetensors.numpy.load_file(folder / "model.safetensors").items()
            if value.dtype.kind == "f" and "pooler" not in name}
    missing, unexpected = model.load_state_dict(held, strict=False)
    if unexpected or any("ids" not in name for name in missing):
        raise SystemExit(f"weights do not fit: {missing} missing, {unexpected} unexpected")
    return model


def vector_of(model, ids):
    with torch.no_grad():
        hidden = model(input_ids=torch.tensor([ids])).last_hidden_state[0]
    mean = hidden.mean(dim=0)
    return (mean / mean.norm()).numpy()


def entries(folder, all_texts):
    model = load_model(folder)
    encode = make_tokenizer(folder, min(MOST_TOKENS, model.config.max_position_embeddings))
    for text in all_texts:
        ids = encode(text)
        vector = vector_of(model, ids).astype(numpy.float16)
        yield {"text": text, "ids": ids, "vector": base64.b64encode(vector.tobytes()).decode()}


def write(path, made):
    lines = ",\n".join(json.dumps(entry, ensure_ascii=True, separators=(",", ":")) for entry in made)
    path.write_text("[\n" + lines + "\n]\n")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    if sys.argv[1] == "--tiny":
        folder = GOLDEN / "tiny" / "encoder"
        write_tiny(folder)
        write(GOLDEN / "tiny" / "encoder.json", entries(folder, texts()[:TINY_TEXTS]))
    else:
        write(GOLDEN / "encoder.json", entries(pathlib.Path(sys.argv[1]), texts()))


if __name__ == "__main__":
    main()
