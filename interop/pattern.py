"""What a filled block holds, by the formula of the Java peer's BlockPattern.

The 64-bit little-endian word ``i`` of block ``b`` of layer ``l`` is
``(l * 1000003 + b) * 0x9E3779B97F4A7C15 + i * 0xBF58476D1CE4E5B9 + seed`` modulo 2^64, where ``l`` is the layer's
index in the whole model and ``i`` counts over the block with all KV heads, heads first.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

PER_LAYER = 1_000_003
PER_BLOCK = np.uint64(0x9E3779B97F4A7C15)
PER_WORD = np.uint64(0xBF58476D1CE4E5B9)


def layers_of_stage(layers: int, pp_rank: int, pp_size: int) -> list[int]:
    """The layers of one pipeline stage, by their index in the whole model."""
    per_stage = layers // pp_size
    first = pp_rank * per_stage
    return list(range(first, layers if pp_rank == pp_size - 1 else first + per_stage))


@dataclass(frozen=True)
class Part:
    """The part of the whole model's KV that one rank holds."""

    layers: tuple[int, ...]
    first_word: int
    words: int

    @staticmethod
    def of_rank(layers: Iterable[int], block_len: int, kv_heads: int, tp_rank: int, tp_size: int) -> Part:
        """A rank with its share of the heads, or with one that other ranks have too."""
        words = block_len // 8
        first_head = tp_rank * kv_heads // tp_size
        return Part(tuple(layers), first_head * words // max(1, kv_heads // tp_size), words)

    @property
    def block_bytes(self) -> int:
        """Bytes of one block over all layers."""
        return len(self.layers) * self.words * 8

    def blocks(self, seed: int, layer: int, block_ids: Sequence[int]) -> Any:
        """The words of some blocks of one layer, a row for each."""
        with np.errstate(over="ignore"):
            ids = np.asarray(block_ids, dtype=np.uint64)
            first = (ids + np.uint64(layer * PER_LAYER)) * PER_BLOCK
            word = np.arange(self.first_word, self.first_word + self.words, dtype=np.uint64) * PER_WORD
            return first[:, None] + (word + np.uint64(seed))[None, :]

    def sha256(self, seed: int, block_ids: Sequence[int]) -> str:
        """SHA-256 over the blocks of all layers in order."""
        digest = hashlib.sha256()
        for layer in self.layers:
            digest.update(self.blocks(seed, layer, block_ids).data)
        return digest.hexdigest()
