/* What cuDNN looks up in the driver and in cuBLASLt while it makes plans for a device that is only described. There is no device; a compiled
 * kernel is accepted and never launched. */
#define NONE(name) int name(void) { return 100; /* CUDA_ERROR_NO_DEVICE */ }

NONE(cuInit) NONE(cuDeviceGetCount) NONE(cuDeviceGet) NONE(cuDriverGetVersion) NONE(cuGetErrorName)
NONE(cuCtxGetCurrent) NONE(cuCtxGetLimit) NONE(cuCtxPopCurrent) NONE(cuCtxPushCurrent) NONE(cuStreamGetCtx)
NONE(cuLinkCreate) NONE(cuLinkAddData) NONE(cuLinkComplete) NONE(cuLinkDestroy)
NONE(cuLaunchKernel) NONE(cuLaunchKernelEx) NONE(cuLaunchCooperativeKernel)
NONE(cuModuleGetFunction) NONE(cuModuleLoadData) NONE(cuModuleUnload)
NONE(cuLibraryLoadFromFile) NONE(cuKernelGetFunction) NONE(cuKernelSetAttribute) NONE(cuKernelGetAttribute)
NONE(cuOccupancyMaxPotentialClusterSize) NONE(cuTensorMapEncodeIm2col) NONE(cuTensorMapEncodeTiled)

int cuGetErrorString(int code, const char **text) {
    (void)code;
    *text = "a stand-in for the driver";
    return 0;
}

int cuLibraryLoadData(void **library) {
    *library = (void *)16;
    return 0;
}

int cuLibraryGetKernel(void **kernel) {
    *kernel = (void *)32;
    return 0;
}

int cuLibraryUnload(void *library) {
    (void)library;
    return 0;
}

unsigned long cublasLtGetVersion(void) {
    return 130100;
}
