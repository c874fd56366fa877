// core/nvml.h - clocks, power, temperature and throttle reasons of a GPU, from the driver's own
// library (libnvidia-ml.so.1), opened at run time: nothing to build against, nothing needed where it
// is not.
#ifndef DELTOP_NVML_H
#define DELTOP_NVML_H

#include <stdbool.h>
#include <stddef.h>

// Bits of nvml_reading.throttle (nvmlClocksThrottleReasons).
enum {
    NVML_IDLE = 0x1,
    NVML_APPLICATION_CLOCKS = 0x2,
    NVML_POWER_CAP = 0x4, // software power cap: common under matrix products
    NVML_HW_SLOWDOWN = 0x8,
    NVML_SYNC_BOOST = 0x10,
    NVML_SW_THERMAL = 0x20,
    NVML_HW_THERMAL = 0x40,
    NVML_POWER_BRAKE = 0x80,
};

typedef struct nvml nvml;

// Device N as the CUDA runtime counts it when CUDA_VISIBLE_DEVICES is not set; pci (may be NULL:
// "0000:1b:00.0") names it surely. NULL when the library or the device is not there.
nvml *nvml_open(int n, const char *pci);
void nvml_close(nvml *x); // NULL is fine

typedef struct nvml_reading {
    double sm_mhz, memory_mhz, watt, celsius; // NaN: this device does not tell
    double busy;                              // percent of the last moment; NaN
    double memory_used, memory_total;         // bytes; NaN
    unsigned throttle;
} nvml_reading;
nvml_reading nvml_read(const nvml *x); // x NULL: nothing known

typedef struct nvml_facts {
    char driver[96], name[96];
    double max_sm_mhz, power_limit_watt; // NaN
    int ecc;                             // 1, 0, -1 not known
} nvml_facts;
nvml_facts nvml_about(const nvml *x);

// "power cap, thermal" into buf; "" for none of interest (idle and application clocks are none).
char *nvml_throttle_text(unsigned reasons, char *buf, size_t size);

#endif
