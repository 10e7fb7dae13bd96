// Device tensors as the kernels here see them: CPU tensors on the same bytes.
#pragma once
#include <ATen/EmptyTensor.h>

#include <utility>

#include "devices.h"

namespace standin {

using at::Tensor;

inline const c10::DispatchKeySet kDeviceKeys(c10::DispatchKey::CUDA);

inline bool on_device(const Tensor& tensor) {
  return tensor.defined() && tensor.device().type() == kType;
}

inline c10::StorageImpl* storage_of(const Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
}

inline Tensor host_view(const Tensor& tensor) {
  const void* address = storage_of(tensor)->data();
  TORCH_CHECK(!address || arena().is_device(address), "stand-in: a device tensor on other memory");
  void* seen = address ? arena().seen_by_host(address) : nullptr;
  c10::DataPtr data(seen, nullptr, [](void*) {}, c10::Device(c10::DeviceType::CPU));
  c10::Storage storage(c10::Storage::use_byte_size_t(), storage_of(tensor)->nbytes(),
      std::move(data), c10::GetDefaultCPUAllocator(), true);
  Tensor view = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), tensor.dtype());
  view.unsafeGetTensorImpl()->set_sizes_and_strides(
      tensor.sizes(), tensor.strides(), tensor.storage_offset());
  view._set_conj(tensor.is_conj());
  view._set_neg(tensor.is_neg());
  return view;
}

inline Tensor upload(const Tensor& tensor, int device) {
  c10::OptionalDeviceGuard guard(c10::Device(kType, device));
  Tensor made = tensor.is_non_overlapping_and_dense()
      ? at::detail::empty_strided_generic(
            tensor.sizes(), tensor.strides(), &allocator, kDeviceKeys, tensor.scalar_type())
      : at::detail::empty_generic(
            tensor.sizes(), &allocator, kDeviceKeys, tensor.scalar_type(), std::nullopt);
  if (tensor.numel()) host_view(made).copy_(tensor);
  return made;
}

}  // namespace standin
