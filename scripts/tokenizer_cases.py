#!/usr/bin/env python3
"""Writes tests/cases/tokenizer: small vocabularies trained on TEXT, and the ids that the `tokenizers`
library gives for corner cases. The tests read what is committed and need neither.

  scripts/tokenizer_cases.py TEXT tests/cases/tokenizer
"""
import json
import sys

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
           r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
TEXTS = [
    ("empty", ""), ("space", " "), ("spaces", "     word  two   three"), ("tab", "\ta\t\tb"),
    ("crlf", "one\r\ntwo\r\n"), ("lf", "one\ntwo\n"), ("no_final_newline", "one\ntwo"),
    ("blank_lines", "a\n\n\n  b"), ("bom", "\ufeffand the"), ("nul", "ab\0cd\0"),
    ("leading_space", " and the LORD"), ("words", "And the LORD said unto Moses, Speak"),
    ("special_start", "</s>a"), ("special_end", "a</s> b"), ("special_inside", "x <s> y</s>z <unk>"),
    ("special_run", "<s><s></s></s>"), ("special_cut", "<s <s> s> </s"), ("longest", "<s>> <s>>>"),
    ("composed", "caf\u00e9 \u00e9"), ("decomposed", "cafe\u0301 e\u0301"),
    ("hangul", "\ud55c\uad6d\uc5b4"), ("hangul_decomposed", "\u1112\u1161\u11ab\u1100\u116e\u11a8"),
    ("angstrom", "\u212b \u212a \uf900"), ("marks", "a\u0316\u0301\u0327b"),
    ("emoji", "\U0001f600 a\U0001f680"), ("korean_ae70", "\uae70"), ("cjk", "\u6df1\u5ea6"),
    ("digits", "1 12 123 1234 12345678"), ("contractions", "I'm you'RE he'S we'LL it'\u017f"),
    ("blanks", "a\u0085b\u00a0c\u2028d\u3000 e\u200bf\u180eg"), ("underscore", "\u2581 a\u2581b"),
    ("punct", "...!!! ??? --- \"q\" (p) [x]{y}"), ("replacement", "bad \ufffd byte"),
    ("gap_of_spaces", "a" + " " * 30 + "b"), ("inner_space", "the Lord of the earth"),
    ("private", "\ue000\uf8ff \u0378"), ("byte_names", "<0x41> <0xEA>"),
]
BYTES = [("b_ff", b"\xff"), ("b_half", b"abc\xe6\xad"), ("b_surrogate", b"a\xed\xa0\x80b"),
         ("b_cut2", b"\xc3"), ("b_cut3", b"\xe2\x82"), ("b_cut4", b"\xf0\x9f\x98z"),
         ("b_overlong", b"\xc0\xaf"), ("b_high", b"\xf4\x90\x80\x80"), ("b_cont", b"a\x80b"),
         ("b_nul_ff", b"\x00\xff\x00")]
RUNS = [("a_3000", "a", 3000), ("spaces_3000", " ", 3000), ("abc_1000", "the", 1000),
        ("mixed_500", "a\u0301 1", 500)]


def corner(spec):
    tokenizer = Tokenizer.from_str(json.dumps(spec))
    cases = []

    def add(name, plain, **shape):
        ids = tokenizer.encode(plain, add_special_tokens=False).ids
        case = {"name": name, **(shape or {"text": plain}), "n": len(ids)}
        for key, value in (("ids", ids), ("ids_special", tokenizer.encode(plain).ids)):
            runs = []
            for i in value:
                if runs and runs[-1][0] == i:
                    runs[-1][1] += 1
                else:
                    runs.append([i, 1])
            short = len(value) > 100 and len(runs) * 4 < len(value)
            case[key + ("_rle" if short else "")] = runs if short else value
        back = tokenizer.decode(ids, skip_special_tokens=False)
        if back != plain:
            case["decoded"] = back
        cases.append(case)

    for name, text in TEXTS:
        add(name, text)
    for name, raw in BYTES:
        text = raw.decode("utf-8", errors="replace")
        add(name, text, bytes=raw.hex(" "), text=text)
    for name, unit, repeat in RUNS:
        add(name, unit * repeat, unit=unit, repeat=repeat)
    return cases


def train(text, size, split, alphabet, special):
    tokenizer = Tokenizer(models.BPE())
    if split:
        tokenizer.pre_tokenizer = split
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=special, show_progress=False,
                                  initial_alphabet=alphabet)
    tokenizer.train_from_iterator([text], trainer)
    return json.loads(tokenizer.to_str())["model"]


def added(i, content, **flags):
    return {"id": i, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": False, "special": True, **flags}


def spec(model, **parts):
    base = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [],
            "normalizer": None, "pre_tokenizer": None, "post_processor": None, "decoder": None}
    return {**base, **parts, "model": model}


def byte_level(text):
    bl = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    model = train(text, 420, pre_tokenizers.ByteLevel(add_prefix_space=False),
                  pre_tokenizers.ByteLevel.alphabet(), ["<unk>", "<s>", "</s>"])
    n = len(model["vocab"])
    tokens = [added(0, "<unk>"), added(1, "<s>"), added(2, "</s>"), added(n, "<s>>"),
              added(n + 1, "  ", special=False, normalized=True),
              added(n + 2, "LORD", special=False, single_word=True, lstrip=True),
              added(n + 3, "\u00e9\u00e9", special=False, normalized=True)]
    post = {"type": "Sequence", "processors": [bl, {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                   {"SpecialToken": {"id": "</s>", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]},
                           "</s>": {"id": "</s>", "ids": [2], "tokens": ["</s>"]}}}]}
    split = {"type": "Split", "pattern": {"Regex": PATTERN}, "behavior": "Isolated", "invert": False}
    return spec(model, added_tokens=tokens, normalizer={"type": "NFC"}, post_processor=post, decoder=bl,
                pre_tokenizer={"type": "Sequence", "pretokenizers": [split, bl]})


def fallback(text):
    model = train("\u2581" + text.replace(" ", "\u2581"), 460, None, [],
                  ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)])
    model.update(unk_token="<unk>", byte_fallback=True, fuse_unk=True)
    norm = {"type": "Sequence", "normalizers": [
        {"type": "Prepend", "prepend": "\u2581"},
        {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]}
    decoder = {"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"},
        {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
    return spec(model, added_tokens=[added(0, "<unk>"), added(1, "<s>"), added(2, "</s>")],
                normalizer=norm, decoder=decoder)


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        text = " ".join(f.read(60000).split())
    byte = byte_level(text)
    strings = json.loads(json.dumps(byte))
    strings["model"]["merges"] = [" ".join(m) for m in byte["model"]["merges"]]
    spaces = spec(train(text[:4000], 120, None, [], ["<unk>"]), decoder={"type": "Fuse"})
    spaces["model"]["unk_token"] = "<unk>"
    whole = json.loads(json.dumps(fallback(text)))
    whole["model"].update(byte_fallback=False)
    for name, s in (("byte_pairs", byte), ("byte_strings", strings), ("fallback", fallback(text)),
                    ("unknown_fused", whole), ("inner_spaces", spaces)):
        with open(f"{sys.argv[2]}/{name}.tokenizer.json", "w", encoding="ascii") as f:
            json.dump(s, f, separators=(",", ":"))
            f.write("\n")
        if name == "byte_strings":  # the same ids as byte_pairs, which the library confirms here
            assert corner(s) == corner(byte)
            continue
        with open(f"{sys.argv[2]}/{name}.corner.json", "w", encoding="ascii") as f:
            f.write("[" + ",\n".join(json.dumps(c) for c in corner(s)) + "]\n")


if __name__ == "__main__":
    main()
