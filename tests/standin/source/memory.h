// Device memory made of host memory, which the host cannot read.
//
// One file in memory is mapped twice. Tensors hold addresses in `device`, which no code may read or
// write (PROT_NONE): a host that follows one dies, as it would on a card. Only the kernels here use
// `host`, the second view. Fresh and freed memory is NaN, and each device has a limit.
#pragma once
#include <ATen/ATen.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

namespace standin {

constexpr int kDevices = 2;  // the second shows what was put on the wrong one
constexpr auto kType = c10::DeviceType::CUDA;
constexpr size_t kArena = size_t(16) << 30;  // address space, not memory, until it is written
constexpr size_t kLimits[] = {size_t(4) << 30, size_t(3) << 30};  // two cards may differ
constexpr size_t kUnit = 512;                // what CUDA's own allocator rounds up to
constexpr int kNaN = 0xFF;                   // each byte of it: NaN in every floating dtype

// The cards that this process sees, by CUDA_VISIBLE_DEVICES: its device 0 is the first of them.
inline const std::vector<int>& cards() {
  static const auto* all = [] {
    auto* seen = new std::vector<int>;
    const char* names = std::getenv("CUDA_VISIBLE_DEVICES");
    std::istringstream listed(names == nullptr ? "0,1" : names);
    for (std::string name; std::getline(listed, name, ',') && (name == "0" || name == "1");)
      seen->push_back(name == "1");
    return seen;
  }();
  return *all;
}

inline int device_count() { return static_cast<int>(cards().size()); }

inline thread_local int current_device = 0;

class Arena {
 public:
  Arena() {
    const int file = memfd_create("stand-in device memory", 0);
    TORCH_CHECK(file >= 0 && ftruncate(file, kArena) == 0, "stand-in: no memory file");
    device_ = map(file, PROT_NONE);
    host_ = map(file, PROT_READ | PROT_WRITE);
    free_[0] = kArena;
    for (int device = 0; device < device_count(); device++)
      limits_[device] = kLimits[cards()[device]];
  }

  void* take(size_t bytes, int device) {
    const size_t wanted = rounded(bytes);
    std::lock_guard<std::mutex> guard(mutex_);
    TORCH_CHECK_WITH(OutOfMemoryError, wanted >= bytes && used_[device] + wanted <= limits_[device],
        "CUDA out of memory. Tried to allocate ", bytes >> 20, " MiB. GPU ", device,
        " has a total capacity of ", limits_[device] >> 20, " MiB. (stand-in)");
    const auto hole = std::find_if(
        free_.begin(), free_.end(), [&](const auto& each) { return each.second >= wanted; });
    TORCH_CHECK_WITH(OutOfMemoryError, hole != free_.end(), "CUDA out of memory. (stand-in)");
    const auto [start, size] = *hole;
    free_.erase(hole);
    if (size > wanted) free_[start + wanted] = size - wanted;
    used_[device] += wanted;
    peak_[device] = std::max(peak_[device], used_[device]);
    std::memset(host_ + start, kNaN, wanted);
    return device_ + start;
  }

  void give_back(void* address, size_t bytes, int device) {
    const size_t start = static_cast<char*>(address) - device_;
    std::lock_guard<std::mutex> guard(mutex_);
    std::memset(host_ + start, kNaN, rounded(bytes));
    used_[device] -= rounded(bytes);
    join(free_.emplace(start, rounded(bytes)).first);
  }

  // The address at which the kernels here find what a tensor holds.
  void* seen_by_host(const void* address) const {
    return host_ + (static_cast<const char*>(address) - device_);
  }
  bool is_device(const void* p) const { return p >= device_ && p < device_ + kArena; }
  bool is_host(const void* p) const { return p >= host_ && p < host_ + kArena; }

  size_t used(int device) const { return used_[device]; }
  size_t peak(int device) const { return peak_[device]; }
  void reset_peak(int device) { peak_[device] = used_[device]; }
  size_t limit(int device) const { return limits_[device]; }
  void set_limit(size_t bytes, int device) { limits_[device] = bytes; }

 private:
  static char* map(int file, int rights) {
    void* address = mmap(nullptr, kArena, rights, MAP_SHARED, file, 0);
    TORCH_CHECK(address != MAP_FAILED, "stand-in: memory cannot be mapped");
    return static_cast<char*>(address);
  }

  static size_t rounded(size_t bytes) { return (bytes + kUnit - 1) / kUnit * kUnit; }

  // Joins a hole with those next to it.
  void join(std::map<size_t, size_t>::iterator hole) {
    const auto next = std::next(hole);
    if (next != free_.end() && hole->first + hole->second == next->first) {
      hole->second += next->second;
      free_.erase(next);
    }
    if (hole == free_.begin()) return;
    const auto before = std::prev(hole);
    if (before->first + before->second != hole->first) return;
    before->second += hole->second;
    free_.erase(hole);
  }

  char *device_, *host_;
  std::map<size_t, size_t> free_;  // holes: start to size
  std::mutex mutex_;
  size_t used_[kDevices] = {}, peak_[kDevices] = {};
  size_t limits_[kDevices] = {};
};

inline Arena& arena() {
  static Arena* one = new Arena();  // never destroyed: tensors may outlive every static
  return *one;
}

struct Block {
  void* address;
  size_t bytes;
  int device;
};

inline void release(void* context) {
  auto* block = static_cast<Block*>(context);
  arena().give_back(block->address, block->bytes, block->device);
  delete block;
}

struct Allocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    const c10::Device device(kType, current_device);
    if (bytes == 0) return {nullptr, nullptr, &release, device};
    void* address = arena().take(bytes, current_device);
    return {address, new Block{address, bytes, current_device}, &release, device};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    std::memcpy(arena().seen_by_host(to), arena().seen_by_host(from), bytes);
  }
};

inline Allocator allocator;
REGISTER_ALLOCATOR(c10::DeviceType::CUDA, &allocator);

}  // namespace standin
