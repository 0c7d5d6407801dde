//! Every function of NVIDIA's libraries that cudarc 0.19 calls for candle 0.11.1, whatever part of it a program uses,
//! and candle's own functions for quantised weights.

use super::Library;

jumps! {
    Driver {
        cuCtxCreate_v3 cuCtxCreate_v4 cuCtxDestroy_v2 cuCtxGetCacheConfig cuCtxGetCurrent cuCtxGetLimit
        cuCtxGetStreamPriorityRange cuCtxSetCacheConfig cuCtxSetCurrent cuCtxSetFlags cuCtxSetLimit cuCtxSynchronize
        cuDestroyExternalMemory cuDeviceGet cuDeviceGetAttribute cuDeviceGetCount cuDeviceGetDefaultMemPool
        cuDeviceGetMemPool cuDeviceGetName cuDeviceGetUuid cuDeviceGetUuid_v2 cuDevicePrimaryCtxRelease_v2
        cuDevicePrimaryCtxRetain cuDeviceSetMemPool cuDeviceTotalMem_v2 cuEventCreate cuEventDestroy_v2
        cuEventElapsedTime cuEventElapsedTime_v2 cuEventQuery cuEventRecord cuEventSynchronize
        cuExternalMemoryGetMappedBuffer cuFuncGetAttribute cuFuncSetAttribute cuFuncSetCacheConfig cuGetErrorName
        cuGetErrorString cuGraphClone cuGraphDestroy cuGraphExecDestroy cuGraphInstantiateWithFlags cuGraphLaunch
        cuGraphUpload cuImportExternalMemory cuInit cuLaunchCooperativeKernel cuLaunchHostFunc cuLaunchKernel
        cuMemAdvise_v2 cuMemAllocAsync cuMemAllocFromPoolAsync cuMemAllocManaged cuMemAlloc_v2 cuMemFreeAsync
        cuMemFreeHost cuMemFree_v2 cuMemGetInfo_v2 cuMemHostAlloc cuMemPoolCreate cuMemPoolDestroy cuMemPoolGetAttribute
        cuMemPoolSetAttribute cuMemPoolTrimTo cuMemPrefetchAsync_v2 cuMemcpyDtoDAsync_v2 cuMemcpyDtoD_v2
        cuMemcpyDtoHAsync_v2 cuMemcpyDtoH_v2 cuMemcpyHtoDAsync_v2 cuMemcpyHtoD_v2 cuMemcpyPeerAsync cuMemsetD8Async
        cuMemsetD8_v2 cuModuleGetFunction cuModuleGetGlobal_v2 cuModuleLoad cuModuleLoadData cuModuleUnload
        cuOccupancyAvailableDynamicSMemPerBlock cuOccupancyMaxActiveBlocksPerMultiprocessor
        cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags cuOccupancyMaxActiveClusters
        cuOccupancyMaxPotentialBlockSize cuOccupancyMaxPotentialBlockSizeWithFlags cuOccupancyMaxPotentialClusterSize
        cuProfilerStart cuProfilerStop cuStreamAttachMemAsync cuStreamBeginCapture_v2 cuStreamCreate
        cuStreamCreateWithPriority cuStreamDestroy_v2 cuStreamEndCapture cuStreamIsCapturing cuStreamSynchronize
        cuStreamWaitEvent
    }
    CublasLt {
        cublasLtCreate cublasLtDestroy cublasLtLoggerOpenFile cublasLtLoggerSetLevel cublasLtMatmul
        cublasLtMatmulAlgoGetHeuristic cublasLtMatmulDescCreate cublasLtMatmulDescDestroy cublasLtMatmulDescSetAttribute
        cublasLtMatmulPreferenceCreate cublasLtMatmulPreferenceDestroy cublasLtMatmulPreferenceSetAttribute
        cublasLtMatrixLayoutCreate cublasLtMatrixLayoutDestroy cublasLtMatrixLayoutSetAttribute
    }
    Cublas {
        cublasCreate_v2 cublasDasum_v2 cublasDestroy_v2 cublasDgemmStridedBatched cublasDgemm_v2 cublasDgemv_v2
        cublasGemmEx cublasGemmGroupedBatchedEx cublasGemmStridedBatchedEx cublasGetPointerMode_v2 cublasSasum_v2
        cublasSetPointerMode_v2 cublasSetStream_v2 cublasSgemmStridedBatched cublasSgemm_v2 cublasSgemv_v2
    }
    Curand {
        curandCreateGenerator curandDestroyGenerator curandGenerate curandGenerateLogNormal
        curandGenerateLogNormalDouble curandGenerateLongLong curandGenerateNormal curandGenerateNormalDouble
        curandGeneratePoisson curandGenerateUniform curandGenerateUniformDouble curandSetGeneratorOffset
        curandSetPseudoRandomGeneratorSeed curandSetStream
    }
    Nvrtc {
        nvrtcCompileProgram nvrtcCreateProgram nvrtcDestroyProgram nvrtcGetPTX nvrtcGetPTXSize nvrtcGetProgramLog
        nvrtcGetProgramLogSize
    }
}

refusals! {
    moe_gemm_wmma moe_gemm_gguf moe_gemm_gguf_prefill launch_mmvq_gguf_q4_0_bf16_plain launch_mmvq_gguf_q4_1_bf16_plain
    launch_mmvq_gguf_q5_0_bf16_plain launch_mmvq_gguf_q5_1_bf16_plain launch_mmvq_gguf_q8_0_bf16_plain
    launch_mmvq_gguf_q2_k_bf16_plain launch_mmvq_gguf_q3_k_bf16_plain launch_mmvq_gguf_q4_k_bf16_plain
    launch_mmvq_gguf_q5_k_bf16_plain launch_mmvq_gguf_q6_k_bf16_plain launch_mmvq_gguf_q4_0_f32_plain
    launch_mmvq_gguf_q4_1_f32_plain launch_mmvq_gguf_q5_0_f32_plain launch_mmvq_gguf_q5_1_f32_plain
    launch_mmvq_gguf_q8_0_f32_plain launch_mmvq_gguf_q2_k_f32_plain launch_mmvq_gguf_q3_k_f32_plain
    launch_mmvq_gguf_q4_k_f32_plain launch_mmvq_gguf_q5_k_f32_plain launch_mmvq_gguf_q6_k_f32_plain
    launch_mmvq_gguf_q4_0_f16_plain launch_mmvq_gguf_q4_1_f16_plain launch_mmvq_gguf_q5_0_f16_plain
    launch_mmvq_gguf_q5_1_f16_plain launch_mmvq_gguf_q8_0_f16_plain launch_mmvq_gguf_q2_k_f16_plain
    launch_mmvq_gguf_q3_k_f16_plain launch_mmvq_gguf_q4_k_f16_plain launch_mmvq_gguf_q5_k_f16_plain
    launch_mmvq_gguf_q6_k_f16_plain launch_mmvq_gguf_quantize_q8_1_bf16 launch_mmvq_gguf_quantize_q8_1_f16
    launch_mmvq_gguf_quantize_q8_1_f32 launch_mmq_quantize_q8_1_D4 launch_mmq_quantize_q8_1_DS4
    launch_mmq_quantize_q8_1_D2S6 launch_mmq_gguf_q4_0 launch_mmq_gguf_q4_1 launch_mmq_gguf_q5_0 launch_mmq_gguf_q5_1
    launch_mmq_gguf_q8_0 launch_mmq_gguf_q2_k launch_mmq_gguf_q3_k launch_mmq_gguf_q4_k launch_mmq_gguf_q5_k
    launch_mmq_gguf_q6_k
}
