"""Model FLOPs utilisation: the operations of a run over those that its devices could have done in the time.

    utilisation = operations a step * steps a second / (peak of a device * devices)

Chowdhery et al. 2022, appendix B. Here we differ: operations are counted in the program and not taken from the number of
parameters, so that what is computed again to save memory (`config.model.remat`) counts again. Evaluating, saving and compiling
is no time of training.
"""

# Published peaks in FLOP/s of one jax device by its `device_kind`, without sparsity, which the vendor's larger numbers have.
# Google, "Peak compute per chip (bf16)" in TFLOPs, https://cloud.google.com/tpu/docs. A chip of v2 (46 TFLOPs) and of v3
# (123 TFLOPs) is two devices, one for each of its cores. Products of float32 are made of one product of bfloat16 there.
_TPUS = {'TPU v2': 23e12, 'TPU v3': 61.5e12, 'TPU v4': 275e12, 'TPU v5 lite': 197e12, 'TPU v5e': 197e12, 'TPU v5': 459e12,
         'TPU v5p': 459e12, 'TPU v6 lite': 918e12, 'TPU v6e': 918e12}

# Nvidia, data sheets and white papers, in TFLOPS of tensor cores. Products of float32 are made in TF32 there.
_GPUS = {
    'NVIDIA A10': dict(bfloat16=125e12, float32=62.5e12),
    'NVIDIA A100-SXM4-40GB': dict(bfloat16=312e12, float32=156e12),
    'NVIDIA A100-SXM4-80GB': dict(bfloat16=312e12, float32=156e12),
    'NVIDIA A100-PCIE-40GB': dict(bfloat16=312e12, float32=156e12),
    'NVIDIA A100 80GB PCIe': dict(bfloat16=312e12, float32=156e12),
    'NVIDIA H100 80GB HBM3': dict(bfloat16=989.5e12, float32=494.5e12),  # SXM: 1,979 and 989 with sparsity
    'NVIDIA H100 PCIe': dict(bfloat16=756.5e12, float32=378e12),         # 1,513 and 756 with sparsity
    'NVIDIA H200': dict(bfloat16=989.5e12, float32=494.5e12),            # 1,979 and 989 with sparsity
    'NVIDIA L4': dict(bfloat16=121e12, float32=60e12),                   # 242 and 120 with sparsity
    'NVIDIA L40S': dict(bfloat16=362.05e12, float32=183e12),
    'NVIDIA GeForce RTX 3090': dict(bfloat16=71e12, float32=35.6e12),
    'NVIDIA GeForce RTX 4090': dict(bfloat16=165.2e12, float32=82.6e12),
    # No tensor core of these reads float32 or bfloat16; in bfloat16 they have no published peak.
    'Tesla T4': dict(float32=8.1e12),
    'Tesla V100-SXM2-16GB': dict(float32=15.7e12),
    'Tesla V100-SXM2-32GB': dict(float32=15.7e12),
}


def peak_flops(device_kind, dtype):
    """The published FLOP/s of a device in products of `dtype`; 0 where none is known, as of CPUs."""
    return _TPUS.get(device_kind) or _GPUS.get(device_kind, {}).get(dtype, 0.0)


def compute_speed(flops_per_step, steps_per_second, peak):
    """What result.json says of it: flops_per_second, None where operations cannot be counted, and where the peak is known too the
    utilisation. peak: FLOP/s of all devices of the run; 0: not known."""
    if flops_per_step is None:
        return dict(flops_per_second=None)
    speed = flops_per_step * steps_per_second
    return dict(flops_per_second=round(speed), **(dict(utilisation=float(f'{speed / peak:.4g}')) if peak else {}))
