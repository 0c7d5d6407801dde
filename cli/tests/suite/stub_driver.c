/* A driver of CUDA VERSION with DEVICES devices of compute capability MAJOR.MINOR. */
#include <stddef.h>
#include <string.h>

int cuInit(unsigned flags) {
    (void)flags;
    return DEVICES ? 0 : 100; /* CUDA_ERROR_NO_DEVICE */
}

int cuDriverGetVersion(int *version) {
    *version = VERSION;
    return 0;
}

int cuDeviceGetCount(int *count) {
    *count = DEVICES;
    return 0;
}

int cuDeviceGet(int *device, int number) {
    *device = number;
    return 0;
}

int cuDeviceGetName(char *name, int length, int device) {
    (void)device;
    strncpy(name, "a stub", (size_t)length);
    return 0;
}

int cuDeviceTotalMem_v2(size_t *bytes, int device) {
    (void)device;
    *bytes = (size_t)64 << 30;
    return 0;
}

int cuDeviceGetAttribute(int *value, int attribute, int device) {
    (void)device;
    *value = attribute == 75 ? MAJOR : attribute == 76 ? MINOR : 1;
    return 0;
}

int cuGetErrorString(int code, const char **text) {
    *text = code == 100 ? "no CUDA-capable device is detected" : "another error";
    return 0;
}
