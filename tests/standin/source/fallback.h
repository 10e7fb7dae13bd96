// Every kernel of the device: check where the arguments are, compute on the CPU, upload results.
#pragma once
#include <torch/library.h>

#include <optional>
#include <set>
#include <string>

#include "waiting.h"

namespace standin {

inline std::mutex random_mutex;

class Call {
 public:
  Call(const c10::OperatorHandle& op, torch::jit::Stack* stack)
      : op_(op), stack_(stack), name_(c10::toString(op.schema().operator_name())),
        first_(stack->size() - op.schema().arguments().size()) {}

  void run() {
    choose_device();
    replace_devices();
    move_down();
    if (waits()) synchronise();
    compute();
    keep_resized();
    move_up();
  }

 private:
  size_t count() const { return op_.schema().arguments().size(); }
  c10::IValue& argument(size_t i) { return (*stack_)[first_ + i]; }

  template <typename Function>
  void for_each_tensor(Function function) {
    for (size_t i = 0; i < count(); ++i) {
      const auto& value = argument(i);
      if (value.isTensor()) function(value.toTensor(), i);
      else if (value.isTensorList())
        for (const Tensor& each : value.toTensorList()) function(each, i);
      else if (value.isOptionalTensorList())
        for (const std::optional<Tensor>& each : value.toOptionalTensorList())
          if (each) function(*each, i);
    }
  }

  // Indices and numbers on the CPU, where CUDA's own kernels take them.
  bool may_be_on_cpu(const Tensor& tensor) const {
    static const std::set<std::string> indexing{"aten::index.Tensor", "aten::index_put_",
        "aten::_index_put_impl_", "aten::index_put", "aten::index.Tensor_out",
        "aten::_unsafe_index.Tensor", "aten::index_put.out"};
    static const std::set<std::string> with_numbers{"aten::masked_fill_", "aten::fill_",
        "aten::lerp", "aten::where", "aten::_fused_adamw_", "aten::_fused_adam_", "aten::pow",
        "aten::clamp", "aten::copy_", "aten::set_"};
    if (!tensor.device().is_cpu()) return false;
    if (indexing.count(name_)) return true;
    return tensor.dim() == 0 && (op_.hasTag(at::Tag::pointwise) ||
        with_numbers.count(op_.schema().operator_name().name));
  }

  // Finds the device that computes, and refuses tensors that are elsewhere, as CUDA does.
  void choose_device() {
    std::optional<c10::Device> found;
    for_each_tensor([&](const Tensor& tensor, size_t i) {
      if (!tensor.defined()) return;
      TORCH_CHECK_NOT_IMPLEMENTED(tensor.layout() == c10::kStrided, "stand-in: ", name_, " on a ",
          tensor.layout(), " tensor");
      if (may_be_on_cpu(tensor)) return;
      if (!found) found = tensor.device();
      TORCH_CHECK(tensor.device() == *found,
          "Expected all tensors to be on the same device, but got ",
          op_.schema().arguments()[i].name(), " is on ", tensor.device(),
          ", different from other tensors on ", *found, " (when checking argument in method ",
          "wrapper_CUDA_", op_.schema().operator_name().name, ")");
    });
    if (found && found->is_cpu()) found.reset();  // the device is among the arguments
    for (size_t i = 0; i < count() && !found; ++i)
      if (argument(i).isDevice() && argument(i).toDevice().type() == kType)
        found = argument(i).toDevice();
    device_ = found && found->has_index() ? found->index() : current_device;
  }

  void replace_devices() {
    for (size_t i = 0; i < count(); ++i)
      if (argument(i).isDevice() && argument(i).toDevice().type() == kType)
        argument(i) = c10::Device(c10::DeviceType::CPU);
  }

  Tensor down(const Tensor& tensor) {
    if (!on_device(tensor)) return tensor;
    for (const auto& [there, here] : pairs_)
      if (there.unsafeGetTensorImpl() == tensor.unsafeGetTensorImpl()) return here;
    pairs_.emplace_back(tensor, host_view(tensor));
    return pairs_.back().second;
  }

  void move_down() {
    for (size_t i = 0; i < count(); ++i) {
      auto& value = argument(i);
      if (value.isTensor()) {
        value = down(value.toTensor());
      } else if (value.isTensorList()) {
        c10::List<Tensor> list;
        for (const Tensor& each : value.toTensorList()) list.push_back(down(each));
        value = list;
      } else if (value.isOptionalTensorList()) {
        c10::List<std::optional<Tensor>> list;
        for (const std::optional<Tensor>& each : value.toOptionalTensorList())
          list.push_back(each ? std::optional<Tensor>(down(*each)) : each);
        value = list;
      }
    }
  }

  // What gives a number, or a shape that depends on values, waits for the device.
  bool waits() const {
    static const std::set<std::string> names{
        "aten::_local_scalar_dense", "aten::equal", "aten::nonzero"};
    return names.count(name_);
  }

  void compute() {
    std::optional<size_t> given;
    for (size_t i = 0; i < count(); ++i)
      if (argument(i).isGenerator()) given = i;
    if (given) compute_with_generator(*given);
    else if (op_.hasTag(at::Tag::nondeterministic_seeded)) compute_with_own_stream();
    else on_cpu();
  }

  void on_cpu() {
    try {
      op_.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack_);
    } catch (const c10::IndexError&) {  // on a card the kernel asserts
      is_broken = true;
      check_alive();
    }
  }

  void compute_with_generator(size_t position) {
    at::Generator given = argument(position).toGenerator();
    TORCH_CHECK(given.device().type() == kType,
        "Expected a 'cuda' device type for generator but found '", given.device().type(), "'");
    at::Generator cpu = at::detail::createCPUGenerator();
    cpu.set_state(given.get_state());
    argument(position) = cpu;
    on_cpu();
    given.set_state(cpu.get_state());
  }

  // The kernel draws from the CPU's default stream, in which the device's state lies meanwhile.
  void compute_with_own_stream() {
    std::lock_guard<std::mutex> guard(random_mutex);
    auto cpu = at::detail::getDefaultCPUGenerator();
    auto own = default_generator(device_);
    const Tensor kept = cpu.get_state();
    cpu.set_state(own.get_state());
    try {
      on_cpu();
    } catch (...) {
      cpu.set_state(kept);
      throw;
    }
    own.set_state(cpu.get_state());
    cpu.set_state(kept);
  }

  // An output that the CPU's kernel resized has other memory, which goes up to the device.
  void keep_resized() {
    for (auto& [there, here] : pairs_) {
      const bool has_moved = here.numel() && !arena().is_host(storage_of(here)->data());
      if (there.sizes() == here.sizes() && !has_moved) continue;
      const Tensor fresh = upload(here, device_);
      there.unsafeGetTensorImpl()->set_storage_keep_dtype(fresh.storage());
      there.unsafeGetTensorImpl()->set_sizes_and_strides(
          fresh.sizes(), fresh.strides(), fresh.storage_offset());
    }
  }

  Tensor up(const Tensor& tensor) {
    if (!tensor.defined()) return tensor;
    for (const auto& [there, here] : pairs_)
      if (here.unsafeGetTensorImpl() == tensor.unsafeGetTensorImpl()) return there;
    for (const auto& [there, here] : pairs_) {
      const void* base = storage_of(here)->data();
      if (!tensor.has_storage() || !base || storage_of(tensor)->data() != base) continue;
      Tensor view = at::detail::make_tensor<c10::TensorImpl>(c10::TensorImpl::VIEW,
          c10::Storage(there.storage()), there.key_set(), tensor.dtype());
      view.unsafeGetTensorImpl()->set_sizes_and_strides(
          tensor.sizes(), tensor.strides(), tensor.storage_offset());
      return view;
    }
    return upload(tensor, device_);
  }

  void move_up() {
    for (size_t i = stack_->size() - op_.schema().returns().size(); i < stack_->size(); ++i) {
      auto& value = (*stack_)[i];
      if (value.isTensor()) {
        value = up(value.toTensor());
      } else if (value.isTensorList()) {
        c10::List<Tensor> list;
        for (const Tensor& each : value.toTensorList()) list.push_back(up(each));
        value = list;
      }
    }
  }

  const c10::OperatorHandle& op_;
  torch::jit::Stack* stack_;
  const std::string name_;
  const size_t first_;
  int device_ = 0;
  std::vector<std::pair<Tensor, Tensor>> pairs_;  // (the device's, its view)
};

inline void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  at::AutoDispatchBelowADInplaceOrView below;
  check_alive();
  Call(op, stack).run();
}

}  // namespace standin
