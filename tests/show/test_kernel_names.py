"""Kernels by their meaning, whatever their name is made of."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kinetoscope
from kinetoscope.show.kernel_names import short_kernel_name
from tests.shared_traces import NAMES, TRACES

EXPECTED = {
    "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl_nocast<at::native::BinaryFunctor<float, float, "
    "float, at::native::binary_internal::MulFunctor<float> > >(at::TensorIteratorBase&, at::native::BinaryFunctor<float, "
    "float, float, at::native::binary_internal::MulFunctor<float> > const&)::{lambda(int)#1}>(int, at::native::"
    "gpu_kernel_impl_nocast<at::native::BinaryFunctor<float> >)": "elementwise_kernel<MulFunctor<float>>",
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float, float, float, float>, "
    "unsigned int, float, 4> >(at::native::ReduceOp<float>)": "reduce_kernel<MeanOps<float>>",
    "void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, true, false>(float*, float const*, int)":
        "softmax_warp_forward<float>",
    "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::"
    "operator()() const::{lambda()#4}::operator()() const::{lambda(long)#1}, std::array<char*, 2ul>, 4, "
    "TrivialOffsetCalculator<1, unsigned int> >(int)": "unrolled_elementwise_kernel<direct_copy_kernel_cuda>",
    "std::enable_if<(((8)>(0)))&&vllm::_typeConvert<c10::BFloat16>::exists, void>::type vllm::fused_add_rms_norm_kernel<"
    "c10::BFloat16, 8>(c10::BFloat16*, long, c10::BFloat16 const*, float, int)": "fused_add_rms_norm_kernel<BFloat16>",
    "_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi64ELi8ELb0EEEvPT0_": "add_rmsnorm_quant_kernel",
    "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)": "ncclDevKernel_AllGather_RING_LL",
    "void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true, (cudnnKernelDataType_t)0>(cudnn::ops::x)":
        "nchwToNhwcKernel<float>",
    # No C++: as they are.
    "Memcpy HtoD (Pageable -> Device)": "Memcpy HtoD (Pageable -> Device)",
    "volta_sgemm_64x64_tn": "volta_sgemm_64x64_tn",
    "triton_poi_fused__unsafe_view_add_3": "triton_poi_fused__unsafe_view_add_3",
    "": "",
}  # fmt: skip


@pytest.mark.parametrize(("name", "short"), EXPECTED.items(), ids=[short or "empty" for short in EXPECTED.values()])
def test_names_by_their_meaning(name: str, short: str) -> None:
    assert short_kernel_name(name) == short


@pytest.mark.parametrize("file", NAMES)
def test_every_kernel_of_the_real_traces_has_a_name_that_fits(file: str) -> None:
    events = kinetoscope.read(TRACES / file).events
    for name in events.filter(events["category"].is_in(["kernel", "gpu_memcpy", "gpu_memset"]))["name"].unique().to_list():
        short = short_kernel_name(name)
        assert short
        assert len(short) <= len(name)
        assert "anonymous" not in short and "at::native" not in short and "lambda" not in short
        if "::" in name:
            assert len(short) < 90, short


@given(st.text(alphabet="ab:<>(){}[],& *_Z0123456789ul-", max_size=60))
def test_no_text_breaks_it(name: str) -> None:
    short = short_kernel_name(name)
    assert bool(short) == bool(name)


def test_deep_and_long_names_take_no_time() -> None:
    assert short_kernel_name("f<" * 5000 + "int" + ">" * 5000)
    assert short_kernel_name("a::" * 100_000)
