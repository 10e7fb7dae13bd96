// What PyTorch asks of CUDA besides kernels: the current device, random streams, hooks.
#pragma once
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <atomic>
#include <vector>

#include "memory.h"

namespace standin {

inline int chosen(int device) { return device < 0 ? current_device : device; }

// Kernels run at once on the calling thread, so streams and events have nothing to order: which
// stream of a device is current is all that there is to a stream.
inline thread_local c10::StreamId current_stream[kDevices] = {};
inline std::atomic<c10::StreamId> streams{0};

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kType; }
  c10::Device getDevice() const override { return {kType, static_cast<int8_t>(current_device)}; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const auto before = getDevice();
    setDevice(device);
    return before;
  }
  void setDevice(c10::Device device) const override {
    TORCH_CHECK(device.index() >= 0 && device.index() < device_count(),
        "CUDA error: invalid device ordinal (stand-in)");
    current_device = device.index();
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    current_device = std::max<int>(device.index(), 0);
  }
  c10::DeviceIndex deviceCount() const noexcept override { return device_count(); }
  c10::Stream getStream(c10::Device device) const override {
    return numbered(device, current_stream[chosen(device.index())]);
  }
  c10::Stream getDefaultStream(c10::Device device) const override { return numbered(device, 0); }
  c10::Stream getNewStream(c10::Device device, int) const override {
    return numbered(device, ++streams);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const auto before = getStream(stream.device());
    current_stream[stream.device_index()] = stream.id();
    return before;
  }
  void destroyEvent(void*, c10::DeviceIndex) const noexcept override {}
  void record(void**, const c10::Stream&, c10::DeviceIndex, c10::EventFlag) const override {}
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream&) const override {}
  void synchronizeEvent(void*) const override {}
  void synchronizeDevice(c10::DeviceIndex) const override {}
  void recordDataPtrOnStream(const c10::DataPtr&, const c10::Stream&) const override {}

 private:
  static c10::Stream numbered(c10::Device device, c10::StreamId id) {
    const c10::Device whole(kType, static_cast<c10::DeviceIndex>(chosen(device.index())));
    return c10::Stream(c10::Stream::UNSAFE, whole, id);
  }
};
C10_REGISTER_GUARD_IMPL(CUDA, Guard);

// A stream of random numbers of a device's own: moving the CPU's does not move it.
struct Generator : at::CPUGeneratorImpl {
  explicit Generator(int device, uint64_t seed = c10::default_rng_seed_val)
      : at::CPUGeneratorImpl(seed) {
    device_ = c10::Device(kType, device);
  }
};

inline const at::Generator& default_generator(int device) {
  static auto* all = new std::vector<at::Generator>{
      at::make_generator<Generator>(0), at::make_generator<Generator>(1)};
  return all->at(chosen(device));
}

}  // namespace standin

namespace at {

struct CUDAHooks : CUDAHooksInterface {
  explicit CUDAHooks(CUDAHooksArgs) {}
  void init() const override {}
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasCUDA() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  DeviceIndex deviceCount() const override { return standin::device_count(); }
  int getNumGPUs() const override { return standin::device_count(); }
  DeviceIndex current_device() const override { return standin::current_device; }
  DeviceIndex getCurrentDevice() const override { return standin::current_device; }
  void setCurrentDevice(DeviceIndex device) const override {
    standin::Guard().setDevice(Device(standin::kType, device));
  }
  DeviceIndex exchangeDevice(DeviceIndex device) const override {
    const auto before = current_device();
    if (device >= 0) setCurrentDevice(device);
    return before;
  }
  DeviceIndex maybeExchangeDevice(DeviceIndex device) const override {
    return exchangeDevice(device);
  }
  const Generator& getDefaultGenerator(DeviceIndex device) const override {
    return standin::default_generator(device);
  }
  Generator getNewGenerator(DeviceIndex device) const override {
    return make_generator<standin::Generator>(standin::chosen(device));
  }
  Allocator* getPinnedMemoryAllocator() const override { return c10::GetDefaultCPUAllocator(); }
  Allocator* getCUDADeviceAllocator() const override { return &standin::allocator; }
  Device getDeviceFromPtr(void*) const override { return Device(standin::kType, 0); }
  void deviceSynchronize(DeviceIndex) const override {}
  std::string showConfig() const override { return "stand-in"; }
};
REGISTER_CUDA_HOOKS(CUDAHooks);

}  // namespace at
