/* NVIDIA's driver library with three cards: on nodes of two, and one whose bus has no answer. */
#include <stdio.h>
#include <string.h>

typedef struct {
  char legacy[16];
  unsigned domain, bus, device, id, subsystem;
  char bus_id[32];
} PciInfo;

static int opened;

int nvmlInit_v2(void) { opened++; return 0; }
int nvmlShutdown(void) { opened--; return 0; }

int nvmlDeviceGetCount_v2(unsigned *count) {
  *count = 3;
  return opened == 1 ? 0 : 1;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
  *handle = (void *)(size_t)(index + 1);
  return index < 3 && opened == 1 ? 0 : 2;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **handle) {
  *handle = (void *)2;
  return strcmp(uuid, "GPU-beef") ? 6 : 0;
}

int nvmlDeviceGetPciInfo_v3(void *handle, PciInfo *info) {
  size_t number = (size_t)handle;
  if (number == 3) return 15;
  memset(info, 0, sizeof *info);
  info->domain = 1;
  info->bus = 0xa0 + number;
  snprintf(info->bus_id, sizeof info->bus_id, "%08X:%02X:00.0", info->domain, info->bus);
  return 0;
}
