"""Names that everybody's traces hold: they tell nothing about the program or who ran it."""

from __future__ import annotations

import re
import sys

_PACKAGES = """
accelerate datasets deepspeed diffusers einops flash_attn lightning megatron numpy pandas peft polars PIL
pytorch_lightning scipy sglang timm tokenizers torch torchao torchaudio torchdata torchrec torchvision tqdm
transformer_engine transformers triton vllm xformers
"""
PACKAGES = frozenset(sys.stdlib_module_names) | frozenset(_PACKAGES.split())
"""Packages whose file names, functions and classes may be shown; Python's own belong to them."""

_MODULES = """
AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveLogSoftmaxWithLoss AdaptiveMaxPool1d AdaptiveMaxPool2d
AdaptiveMaxPool3d AlphaDropout AvgPool1d AvgPool2d AvgPool3d BCELoss BCEWithLogitsLoss BatchNorm1d BatchNorm2d BatchNorm3d
Bilinear CELU CTCLoss ChannelShuffle CircularPad1d CircularPad2d CircularPad3d ConstantPad1d ConstantPad2d ConstantPad3d
Container Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d CosineEmbeddingLoss CosineSimilarity
CrossEntropyLoss CrossMapLRN2d DataParallel Dropout Dropout1d Dropout2d Dropout3d ELU Embedding EmbeddingBag
FeatureAlphaDropout Flatten Fold FractionalMaxPool2d FractionalMaxPool3d GELU GLU GRU GRUCell GaussianNLLLoss GroupNorm
Hardshrink Hardsigmoid Hardswish Hardtanh HingeEmbeddingLoss HuberLoss Identity InstanceNorm1d InstanceNorm2d
InstanceNorm3d KLDivLoss L1Loss LPPool1d LPPool2d LPPool3d LSTM LSTMCell LayerNorm LazyBatchNorm1d LazyBatchNorm2d
LazyBatchNorm3d LazyConv1d LazyConv2d LazyConv3d LazyConvTranspose1d LazyConvTranspose2d LazyConvTranspose3d
LazyInstanceNorm1d LazyInstanceNorm2d LazyInstanceNorm3d LazyLinear LeakyReLU Linear LinearCrossEntropyLoss
LocalResponseNorm LogSigmoid LogSoftmax MSELoss MarginRankingLoss MaxPool1d MaxPool2d MaxPool3d MaxUnpool1d MaxUnpool2d
MaxUnpool3d Mish Module ModuleDict ModuleList MultiLabelMarginLoss MultiLabelSoftMarginLoss MultiMarginLoss
MultiheadAttention NLLLoss NLLLoss2d PReLU PairwiseDistance ParameterDict ParameterList PixelShuffle PixelUnshuffle
PoissonNLLLoss RMSNorm RNN RNNBase RNNCell RNNCellBase RReLU ReLU ReLU6 ReflectionPad1d ReflectionPad2d ReflectionPad3d
ReplicationPad1d ReplicationPad2d ReplicationPad3d SELU Sequential SiLU Sigmoid SmoothL1Loss SoftMarginLoss Softmax
Softmax2d Softmin Softplus Softshrink Softsign SyncBatchNorm Tanh Tanhshrink Threshold Transformer TransformerDecoder
TransformerDecoderLayer TransformerEncoder TransformerEncoderLayer TripletMarginLoss TripletMarginWithDistanceLoss
Unflatten Unfold Upsample UpsamplingBilinear2d UpsamplingNearest2d ZeroPad1d ZeroPad2d ZeroPad3d
"""
MODULES = frozenset(_MODULES.split())
"""Classes of ``torch.nn`` (2.13)."""

_OPTIMIZERS = """
ASGD Adadelta Adafactor Adagrad Adam AdamW Adamax LBFGS Muon NAdam Optimizer RAdam RMSprop Rprop SGD SparseAdam
"""
OPTIMIZERS = frozenset(_OPTIMIZERS.split())
"""Classes of ``torch.optim`` (2.13)."""

_NAMESPACES = """
_c10d_functional aten c10d c10d_functional cuda cudnn fbgemm inductor mkl mkldnn mtia nccl onednn prim prims profiler
quantized rocm sparse static torchaudio torchvision triton xformers xpu
"""
NAMESPACES = frozenset(_NAMESPACES.split())
"""Namespaces of operators that come with torch or its libraries."""

_CATEGORIES = """
Trace ac2g async_cpu_to_gpu async_gpu_correlation collective_comm cpu_instant_event cpu_op cpu_to_gpu cuda_driver
cuda_event cuda_profiler_range cuda_runtime cuda_sync cudagraph forward fwd_bwd fwdbwd glow_runtime gpu_memcpy gpu_memset
gpu_pm_counter gpu_user_annotation hpu_op kernel mtia_ccp_events mtia_counters mtia_insight mtia_runtime overhead
privateuse1_driver privateuse1_runtime python_function trace user_annotation xpu_driver xpu_runtime xpu_sync
"""
CATEGORIES = frozenset(_CATEGORIES.split())
"""Categories of Kineto."""

_BUILT_INS = """
Tensor type dict list tuple set str int float bool bytes
"""
BUILT_INS = frozenset(_BUILT_INS.split())
"""Classes whose built-in methods may be shown."""

_WORDS = """
BFloat16 Bool Byte Char ComplexDouble ComplexFloat Double Float Float8_e4m3fn Float8_e5m2 Half Int Long Short Scalar
ScalarList TensorList GenericList Device Dict List None String double float int long char short signed unsigned bool
c10::BFloat16 c10::Half c10::complex<float> c10::complex<double> c10::Float8_e4m3fn c10::Float8_e5m2 _allgather_base
allgather allgather_into_tensor_coalesced allreduce all_reduce all_gather all_to_all all_to_allv alltoall alltoall_base
barrier broadcast coalesced gather irecv isend recv reduce reduce_scatter reduce_scatter_tensor _reduce_scatter_base
scatter send wait DEVICE_TO_HOST HOST_TO_DEVICE DEVICE_TO_DEVICE triton cpu cuda hip xpu mtia hpu cpp CPU CUDA XPU MTIA
HPU PrivateUse1 Operator Kernel Memcpy Memset Runtime kineto native default_pg undefined gloo mpi nccl rccl ucc xccl ms ns
e t g f p s
"""
WORDS = frozenset(_WORDS.split())
"""Words among the arguments: types of elements, collectives, directions, devices."""

_KEYS = """
Addr Bytes Device Type cname correlation device dtype dur finished grid block bp chrome id kind memory name Op s scope
size stream ts value warps External Ev Idx id2 bind_id flow_in flow_out tts tdur sf esf stack kernel src dst args
cuda_sync_kind direction ptr kernel_backend kernel_name kernel_kwargs kernel_file kernel_hash num_warps num_stages mem
schemaVersion displayTimeUnit cupti_version cuda_runtime_version cuda_driver_version nccl_version roctracer_version
hip_runtime_version hip_driver_version with_stack with_modules with_flops record_shapes profile_memory backend rank
world_size pg_count pg_size pg_name pg_desc ranks pg_config backend_config group_count totalGlobalMem computeMajor
computeMinor maxThreadsPerBlock maxThreadsPerMultiprocessor regsPerBlock warpSize sharedMemPerBlock numSms
regsPerMultiprocessor sharedMemPerBlockOptin sharedMemPerMultiprocessor maxThreadsPerMultiProcessor l2CacheSize clockRate
memoryBusWidth uuid recorder activities use_device DISABLE_CUPTI_LAZY_REINIT seq cat ph pid tid column row executable_name
cmd_name stream_id group
"""
KEYS = frozenset(_KEYS.split())
"""Keys of arguments and of members of a file that profilers write, besides the ones below."""

KEYS_WITH_SPACES = frozenset(
    {
        "blocks per SM", "warps per SM", "shared memory", "registers per thread", "est. achieved occupancy %", "queued",
        "memory bandwidth (GB/s)", "priority", "context", "External id", "Ev Idx", "Original category", "Collective name",
        "Process Group Name", "Process Group Description", "Process Group Ranks", "Group size", "In msg nelems",
        "Out msg nelems", "In split size", "Out split size", "Global rank start", "Global rank stride", "Src Rank", "Dst Rank",
        "Seq", "Rank", "Trace name", "Trace iteration", "Input names", "Output names", "Output dims", "Output type",
        "Extra arguments", "Input Dims", "Input type", "Input Strides", "Concrete Inputs", "wait_on_stream",
        "wait_on_cuda_event_record_corr_id", "wait_on_cuda_event_id", "graph id", "graph node id", "mem size", "Call stack",
        "Profiler Event Index", "Is asynchronized collective op",
    }
)  # fmt: skip
"""Keys of arguments with something else than letters in them."""

DRIVER_WORK = frozenset(
    {
        "Lazy Function Loading", "Activity Buffer Request", "Buffer Flush", "Instrumentation", "Resource", "Context Sync",
        "Runtime Triggered Module Loading", "Command Buffer Full", "Event Sync", "Stream Sync", "Stream Wait Event",
        "Device Sync",
    }
)  # fmt: skip
"""What a vendor's driver reports of itself."""

KERNELS = re.compile(
    r"""at::native|at_cuda_detail|c10::|cask|cub::|cublas|cudnn|cutlass|flash_(?:fwd|bwd)|fmha|gemv|implicit_convolve|
    nchwToNhwc|nhwcToNchw|rccl|rocblas|rocprim|thrust::|xmma|^Cijk_|^Mem(?:cpy|set)\b|^(?:ampere|hopper|maxwell|sm\d+|turing|
    volta)_|\bnccl(?:Dev)?Kernel|^triton_(?:poi|per|red|tem|mm|for|unk)_|gemmk1|splitK|winograd""",
    re.VERBOSE,
)
"""Kernels of torch, of inductor and of the vendors' libraries."""

GENERATED_KERNELS = re.compile(r"(?:triton_(?:poi|per|red|tem|mm|for|unk)_|Cijk_)\w+")
"""Kernels whose whole name is made of operators and sizes."""

CALLS = re.compile(r"(?:cu|cuda|hip|ze|ur|nccl)[A-Z]\w*")
"""Functions of the vendors' runtimes."""

ANNOTATIONS = re.compile(
    r"""ProfilerStep\#\d+|enumerate\(DataLoader\)\#_(?:Single|Multi)Process\w+\.__next__|record_param_comms|
    (?:nccl|gloo|mpi|ucc|xccl):[a-z_]*|DistributedDataParallel\.forward|FullyShardedDataParallel\.\w+|
    FSDP::(?:all_gather|pre_forward|post_forward|pre_backward|post_backward|reduce_scatter|root_pre_forward)|
    Torch-Compiled\ Region:\ [\d/]+|TorchDynamo\ Cache\ Lookup|CompiledFunction(?:Backward)?|Pregraph\ bytecode|
    AOTDispatcher\ Runtime\ Wrapper\ Prologue|\#\#\ Call\ CompiledFxGraph\ [a-z0-9]+\ \#\#|
    Iteration\ Start:\ (?:PyTorch\ Profiler|__cupti_profiler__)|Record\ Window\ End|(?:Trace\ )?PyTorch\ Profiler(?:\ \(\d+\))?|
    __cupti_profiler__(?:\ \(-?\d+\))?""",
    re.VERBOSE,
)
"""Annotations that torch itself makes."""

PLACES = re.compile(
    r"""python[\d.]*|CPU|(?:GPU|CUDA|XPU|MTIA|HPU)\ ?\d*|stream\ -?\d*\s*|(?:thread|Thread)\ -?\d+(?:\ \((?:python[\d.]*|
    pt_(?:autograd|main|data)\w*|cuda-EvtHandlr)\))?|Spans|Traces|(?:Trace\ )?PyTorch\ Profiler(?:\ \(\d+\))?|\s*""",
    re.VERBOSE,
)
"""Names of processes, threads and their labels."""

DEVICES = re.compile(r"(?:NVIDIA|AMD|Intel|Tesla|GeForce|Quadro)[ \w()-]{1,40}")
"""Names of devices, as their drivers give them."""
