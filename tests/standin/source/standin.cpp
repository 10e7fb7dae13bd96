// A CUDA device made of host memory, for tests, beside a build of PyTorch for the CPU.
//
// Kernels are registered under CUDA's dispatch key, so PyTorch's own code for CUDA (autograd's
// device threads, autocast, GradScaler, fused optimizers) runs unchanged; see README.md for what
// this does not prove. One unit, in parts: memory, devices, views, waiting, fallback.
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/native/Resize.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>

#include "fallback.h"

namespace standin {

using MaybeType = std::optional<at::ScalarType>;
using MaybeLayout = std::optional<at::Layout>;
using MaybeDevice = std::optional<c10::Device>;
using MaybeFormat = std::optional<at::MemoryFormat>;

// What follows gives, shares or fills memory, so it cannot be a kernel of the CPU.

c10::Device wanted(MaybeDevice device) {
  return device && device->has_index() ? *device : c10::Device(kType, current_device);
}

Tensor empty(at::IntArrayRef size, MaybeType dtype, MaybeLayout, MaybeDevice device,
    std::optional<bool>, MaybeFormat format) {
  c10::OptionalDeviceGuard guard(wanted(device));
  return at::detail::empty_generic(
      size, &allocator, kDeviceKeys, c10::dtype_or_default(dtype), format);
}

Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, MaybeType dtype, MaybeLayout,
    MaybeDevice device, std::optional<bool>) {
  c10::OptionalDeviceGuard guard(wanted(device));
  return at::detail::empty_strided_generic(
      size, stride, &allocator, kDeviceKeys, c10::dtype_or_default(dtype));
}

Tensor& copy(Tensor& to, const Tensor& from, bool non_blocking) {
  at::AutoDispatchBelowADInplaceOrView below;
  check_alive();
  const bool to_host = on_device(from) && !on_device(to);
  if (to_host && non_blocking) {
    delay_copy(to, from);
    return to;
  }
  if (to_host) synchronise();
  (on_device(to) ? host_view(to) : to).copy_(on_device(from) ? host_view(from) : from);
  return to;
}

const Tensor& resize(const Tensor& self, at::IntArrayRef size, MaybeFormat format) {
  if (self.sizes() == size) return self;
  size_t numbers = self.storage_offset();
  numbers += c10::multiply_integers(size);
  const size_t bytes = numbers * self.element_size();
  auto* storage = storage_of(self);
  if (bytes > storage->nbytes()) {
    c10::OptionalDeviceGuard guard(self.device());
    auto fresh = allocator.allocate(bytes);
    if (storage->nbytes()) allocator.copy_data(fresh.get(), storage->data(), storage->nbytes());
    storage->set_data_ptr(std::move(fresh));
    storage->set_nbytes(bytes);
  }
  self.unsafeGetTensorImpl()->set_sizes_contiguous(size);
  if (format && *format != at::MemoryFormat::Preserve)
    self.unsafeGetTensorImpl()->empty_tensor_restride(*format);
  return self;
}

Tensor& set(Tensor& self, at::Storage source, int64_t offset, at::IntArrayRef size,
    at::IntArrayRef stride) {
  TORCH_CHECK(source.device() == self.device(),
      "Attempted to set the storage of a tensor on device \"", self.device(),
      "\" to a storage on different device \"", source.device(), "\".");
  auto* impl = self.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(source);
  if (stride.empty() && !size.empty()) {
    impl->set_sizes_contiguous(size);
    impl->set_storage_offset(offset);
  } else {
    impl->set_sizes_and_strides(size, stride, offset);
  }
  return self;
}

Tensor& set_whole(Tensor& self, at::Storage source) {
  const int64_t numbers = source.nbytes() / self.element_size();
  return set(self, source, 0, {numbers}, {1});
}

Tensor& set_nothing(Tensor& self) {
  return set(self, empty({0}, self.scalar_type(), {}, self.device(), {}, {}).storage(), 0, {0}, {1});
}

TORCH_LIBRARY_IMPL(_, CUDA, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

TORCH_LIBRARY_IMPL(aten, CUDA, library) {
  library.impl("empty.memory_format", &empty);
  library.impl("empty_strided", &empty_strided);
  library.impl("copy_", &copy);
  library.impl("resize_", &resize);
  library.impl("set_.source_Storage_storage_offset", &set);
  library.impl("set_.source_Storage", &set_whole);
  library.impl("set_.source_Tensor", &at::native::set_tensor_);
  library.impl("set_", &set_nothing);
  library.impl("as_strided", &at::native::as_strided_tensorimpl);
  library.impl("view", TORCH_FN(at::native::view));
  library.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  library.impl("unfold", &at::native::unfold);
  library.impl("view_as_real", &at::native::view_as_real);
  library.impl("view_as_complex", &at::native::view_as_complex);
  // By default these choose a backend of CUDA's, of which there is none.
  for (const char* name : {"convolution", "convolution_backward"})
    library.impl(name, torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

// Attention takes the plain kernel: the fused ones are CUDA's own.
int64_t choose_attention(const Tensor&, const Tensor&, const Tensor&, const std::optional<Tensor>&,
    double, bool, std::optional<double>, bool) {
  return static_cast<int64_t>(at::SDPBackend::math);
}

struct Install {
  Install() { at::native::_fused_sdp_choice_stub.set_cuda_dispatch_ptr(&choose_attention); }
} install;

// For torch.cuda's questions, which cuda.py answers.
TORCH_LIBRARY(standin, library) {
  library.def("device_count", []() -> int64_t { return device_count(); });
  library.def("current_device", []() -> int64_t { return current_device; });
  library.def("set_device", [](int64_t d) { Guard().setDevice(c10::Device(kType, d)); });
  library.def("allocated", [](int64_t d) -> int64_t { return arena().used(d); });
  library.def("peak", [](int64_t d) -> int64_t { return arena().peak(d); });
  library.def("reset_peak", [](int64_t d) { arena().reset_peak(d); });
  library.def("limit", [](int64_t d) -> int64_t { return arena().limit(d); });
  library.def("set_limit", [](int64_t bytes, int64_t d) { arena().set_limit(bytes, d); });
  library.def("random_state", [](int64_t d) { return default_generator(d).get_state(); });
  library.def("set_random_state", [](const Tensor& state, int64_t d) {
    at::Generator generator = default_generator(d);
    generator.set_state(state);
  });
  library.def("seed", [](int64_t seed, int64_t d) {
    at::Generator generator = default_generator(d);
    generator.set_current_seed(static_cast<uint64_t>(seed));
  });
  library.def("initial_seed", [](int64_t d) -> int64_t {
    return static_cast<int64_t>(default_generator(d).current_seed());
  });
  library.def("synchronize", &synchronise);
  library.def("heal", []() { is_broken = false; });
}

}  // namespace standin
