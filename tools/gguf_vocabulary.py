"""The vocabulary of the model files that the tools make: bytes, then merges, then two special tokens."""

import gguf

SPECIALS = ("<|im_start|>", "<|im_end|>")
CHAT_TEMPLATE = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")


def byte_characters():
    """GPT-2's printable stand-in for each byte."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table, spare = {}, 0
    for byte in range(256):
        if byte in printable:
            table[byte] = chr(byte)
        else:
            table[byte] = chr(256 + spare)
            spare += 1
    return [table[byte] for byte in range(256)]


def write_vocabulary(writer, size, merges):
    """Token id = byte for 0..255, then one token per merge, then ones that no text gives, then SPECIALS."""
    tokens = byte_characters() + [merge.replace(" ", "") for merge in merges]
    tokens += [f"unused{i}" for i in range(size - len(tokens) - len(SPECIALS))] + list(SPECIALS)
    assert len(tokens) == size == len(set(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.NORMAL] * (size - len(SPECIALS)) + [gguf.TokenType.CONTROL] * len(SPECIALS))
    writer.add_token_merges(merges)
    writer.add_bos_token_id(tokens.index(SPECIALS[0]))
    writer.add_eos_token_id(tokens.index(SPECIALS[1]))
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)
