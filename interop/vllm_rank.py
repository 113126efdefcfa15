"""One rank of vLLM's own MooncakeConnector, scheduler and worker, on CPU over tcp.

Nothing in vLLM's files is changed. What a machine without a GPU and without a model lacks is put in place
around it, and listed here:

1. ``torch.accelerator.current_device_index``: the wheel's torch is a CUDA build and raises without a driver.
2. The tensor-parallel rank and size and the pipeline group come from the options: there is no process group.
3. The attention backend is FlashAttention's, as on a GPU: the one for CPUs has no blocks of 16 tokens.
4. Requests, blocks and scheduler steps are made of vLLM's own classes, without its scheduler and its model.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import os
import sys
import tempfile
from types import SimpleNamespace
from typing import Any

import pattern

END_OF_SEQUENCE = 151645
LAYER_NAME = "model.layers.{}.self_attn.attn"


def options(args: list[str]) -> argparse.Namespace:
    """The command line, the same as the Java peer's."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--role", required=True, choices=["kv_producer", "kv_consumer", "kv_both"])
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--engine-id")
    parser.add_argument("--bootstrap-port", type=int, default=8998)
    parser.add_argument("--bootstrap-server-address")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--num-blocks", type=int, default=320)
    parser.add_argument("--block-size", type=int, default=16)
    parser.add_argument("--kv-heads", type=int, default=4)
    parser.add_argument("--head-dim", type=int, default=128)
    parser.add_argument("--tp-size", type=int, default=1)
    parser.add_argument("--tp-rank", type=int, default=0)
    parser.add_argument("--pp-size", type=int, default=1)
    parser.add_argument("--pp-rank", type=int, default=0)
    parser.add_argument("--dp-rank", type=int, default=0)
    parser.add_argument("--abort-timeout", type=int, default=480)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(args)


def prepare_environment(a: argparse.Namespace) -> None:
    """What vLLM reads from the environment; to be called before it is imported."""
    os.environ.update(
        VLLM_TARGET_DEVICE="cpu",
        VLLM_HOST_IP=a.host,
        VLLM_MOONCAKE_BOOTSTRAP_PORT=str(a.bootstrap_port),
        VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT=str(a.abort_timeout),
        VLLM_LOGGING_STREAM="ext://sys.stderr",
        VLLM_NO_USAGE_STATS="1",
        HF_HUB_OFFLINE="1",
        TRANSFORMERS_OFFLINE="1",
    )
    os.environ.setdefault("MC_LOG_LEVEL", "INFO")


class VllmRank:
    """The connector of one rank, its KV memory, and what a server does with them."""

    def __init__(self, a: argparse.Namespace) -> None:
        prepare_environment(a)
        self.options = a
        import torch

        torch.accelerator.current_device_index = lambda: 0
        logging.basicConfig(stream=sys.stderr, level="INFO", format="%(asctime)s %(levelname)s %(name)s: %(message)s")
        import vllm
        import vllm.distributed.kv_transfer.kv_connector.v1.mooncake.mooncake_connector as module
        from vllm.config import set_current_vllm_config
        from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorRole
        from vllm.v1.attention.backends.flash_attn import FlashAttentionBackend

        self.version: str = vllm.__version__
        module.get_tensor_model_parallel_rank = lambda: a.tp_rank
        module.get_tensor_model_parallel_world_size = lambda: a.tp_size
        module.get_pp_group = lambda: SimpleNamespace(rank_in_group=a.pp_rank)
        module.get_current_attn_backends = lambda config, names=None: [FlashAttentionBackend]

        self.layers = pattern.layers_of_stage(a.layers, a.pp_rank, a.pp_size)
        config = self._config()
        self.engine_id: str = config.kv_transfer_config.engine_id
        cache, tensors = self._cache(torch)
        self.memory = [self._bytes_of(torch, tensors[LAYER_NAME.format(layer)]) for layer in self.layers]
        self.fill(a.seed)
        with set_current_vllm_config(config):
            self.scheduler: Any = module.MooncakeConnector(config, KVConnectorRole.SCHEDULER, cache)
            self.connector: Any = module.MooncakeConnector(config, KVConnectorRole.WORKER, cache)
        self.worker: Any = self.connector.connector_worker
        self.connector.register_kv_caches(tensors)

    def _config(self) -> Any:
        from vllm.config import (
            CacheConfig,
            DeviceConfig,
            KVTransferConfig,
            ModelConfig,
            ParallelConfig,
            SchedulerConfig,
            VllmConfig,
        )

        a = self.options
        with tempfile.TemporaryDirectory(prefix="interop-model-") as folder:
            with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
                json.dump(self._model(), file)
            model = ModelConfig(
                model=folder, skip_tokenizer_init=True, dtype="bfloat16", seed=42, max_model_len=1 << 20
            )
        cache = CacheConfig(
            block_size=a.block_size, gpu_memory_utilization=0.5, cache_dtype="auto", enable_prefix_caching=True
        )
        cache.kv_cache_layout = "LBHNC"
        extra: dict[str, Any] = {"mooncake_protocol": "tcp"}
        if a.bootstrap_server_address:
            extra["bootstrap_server_address"] = a.bootstrap_server_address
        transfer: dict[str, Any] = {
            "kv_connector": "MooncakeConnector",
            "kv_role": a.role,
            "kv_connector_extra_config": extra,
        }
        if a.engine_id:
            transfer["engine_id"] = a.engine_id
        config = VllmConfig(
            model_config=model,
            scheduler_config=SchedulerConfig(
                max_num_seqs=256,
                max_num_batched_tokens=1 << 20,
                max_model_len=1 << 20,
                enable_chunked_prefill=True,
                is_encoder_decoder=False,
            ),
            cache_config=cache,
            parallel_config=ParallelConfig(),
            kv_transfer_config=KVTransferConfig(**transfer),
            device_config=DeviceConfig("cpu"),
        )
        # After validation, which would want as many devices.
        config.parallel_config.tensor_parallel_size = a.tp_size
        config.parallel_config.pipeline_parallel_size = a.pp_size
        config.parallel_config.data_parallel_index = a.dp_rank
        return config

    def _model(self) -> dict[str, Any]:
        """A model's config.json; its weights are never asked for."""
        a = self.options
        heads = 28 - 28 % a.kv_heads
        return {
            "architectures": ["Qwen2ForCausalLM"],
            "model_type": "qwen2",
            "hidden_size": heads * a.head_dim,
            "head_dim": a.head_dim,
            "intermediate_size": 256,
            "num_hidden_layers": a.layers,
            "num_attention_heads": heads,
            "num_key_value_heads": a.kv_heads,
            "vocab_size": 152064,
            "max_position_embeddings": 1 << 20,
            "rms_norm_eps": 1e-6,
            "rope_theta": 1e6,
            "hidden_act": "silu",
            "torch_dtype": "bfloat16",
            "bos_token_id": 151643,
            "eos_token_id": END_OF_SEQUENCE,
            "tie_word_embeddings": False,
            "use_sliding_window": False,
            "use_cache": True,
        }

    def _cache(self, torch: Any) -> tuple[Any, dict[str, Any]]:
        """The cache as vLLM describes it, and its tensors as vLLM allocates them."""
        from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec, KVCacheTensor
        from vllm.v1.kv_cache_layout import KVCacheLayout
        from vllm.v1.worker.utils import allocate_kv_cache

        a = self.options
        names = [LAYER_NAME.format(layer) for layer in self.layers]
        spec = FullAttentionSpec(
            block_size=a.block_size,
            num_kv_heads=max(1, a.kv_heads // a.tp_size),
            head_size=a.head_dim,
            dtype=torch.bfloat16,
        )
        self.block_len: int = spec.page_size_bytes
        layer_bytes = a.num_blocks * self.block_len
        cache = KVCacheConfig(
            num_blocks=a.num_blocks,
            kv_cache_tensors=[
                KVCacheTensor(
                    size=len(names) * layer_bytes, layers=names, layer_stride=layer_bytes, block_stride=self.block_len
                )
            ],
            kv_cache_groups=[KVCacheGroupSpec(names, spec)],
        )
        return cache, allocate_kv_cache(cache, torch.device("cpu"), KVCacheLayout.LBHNC)

    def _bytes_of(self, torch: Any, tensor: Any) -> Any:
        """A layer's memory, not a copy of it, as an array of blocks of bytes."""
        if not tensor.is_contiguous():
            raise RuntimeError(f"a layer's memory has gaps: strides {tensor.stride()}")
        return tensor.view(torch.uint8).reshape(self.options.num_blocks, self.block_len).numpy()

    def part(self) -> pattern.Part:
        """The part of the whole model's KV that this rank holds."""
        a = self.options
        return pattern.Part.of_rank(self.layers, self.block_len, a.kv_heads, a.tp_rank, a.tp_size)

    def fill(self, seed: int) -> None:
        """Fills all blocks by the formula; 0 makes them zero."""
        for layer, memory in zip(self.layers, self.memory, strict=True):
            if seed == 0:
                memory.fill(0)
            else:
                memory[:] = self.part().blocks(seed, layer, range(self.options.num_blocks)).view("uint8")

    def checksum(self, block_ids: list[int]) -> str:
        """SHA-256 over the blocks of all layers in order."""
        digest = hashlib.sha256()
        for memory in self.memory:
            digest.update(memory[block_ids].data)
        return digest.hexdigest()

    def nonzero(self, block_ids: list[int]) -> int:
        """How many (layer, block) pairs hold a byte that is not zero."""
        return sum(int(memory[block_ids].any(axis=1).sum()) for memory in self.memory)

    def request(self, request_id: str, blocks: int, params: dict[str, Any]) -> Any:
        """A request with a prompt of so many blocks."""
        from vllm import SamplingParams
        from vllm.v1.request import Request

        sampling = SamplingParams(max_tokens=1 if params["do_remote_decode"] else 16)
        sampling.update_from_generation_config({}, END_OF_SEQUENCE)
        request = Request(
            request_id=request_id,
            prompt_token_ids=list(range(blocks * self.options.block_size)),
            sampling_params=sampling,
            pooling_params=None,
            mm_features=None,
        )
        request.kv_transfer_params = params
        return request

    def allocated(self, block_ids: list[int], cached: int) -> Any:
        """Blocks of a request, behind others that its prefix was found in."""
        from vllm.v1.core.kv_cache_manager import KVCacheBlocks
        from vllm.v1.core.kv_cache_utils import KVCacheBlock

        used = set(block_ids)
        others = [i for i in range(self.options.num_blocks) if i not in used][:cached]
        blocks = []
        for block_id in others:
            block = KVCacheBlock(block_id=block_id)
            block.set_block_hash(b"cached here" + bytes(4), self.options.block_size)
            blocks.append(block)
        return KVCacheBlocks(([*blocks, *(KVCacheBlock(block_id=i) for i in block_ids)],))

    def step(self) -> None:
        """One scheduler step and the worker's part of it, as the model runner does them."""
        from vllm.v1.core.sched.output import SchedulerOutput

        self.connector.bind_connector_metadata(self.scheduler.build_connector_meta(SchedulerOutput.make_empty()))
        self.connector.start_load_kv(None)
        self.connector.wait_for_save()
        self.connector.clear_connector_metadata()
