// kernels/cuda/launch.h - launches that say more than <<<>>> can. Host code.
#ifndef DELTOP_CUDA_LAUNCH_H
#define DELTOP_CUDA_LAUNCH_H

#include <cuda_runtime.h>

// threads, shared: of a block; bytes of dynamic shared memory, which the kernel may take from here on. cluster: blocks of one
// along x, 0: none. beside: may begin before what was launched before is through, once all blocks of that have let it.
struct launch_form {
    dim3 grid;
    int threads, shared;
    int cluster;
    bool beside;
};

template <class... Parameters, class... Arguments>
static cudaError_t launch_as(const launch_form &form, cudaStream_t stream,
                             void (*kernel)(Parameters...), Arguments... arguments) {
    cudaError_t r =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, form.shared);
    if (r != cudaSuccess)
        return r;
    cudaLaunchAttribute with[2] = {};
    cudaLaunchConfig_t launch = {};
    launch.gridDim = form.grid;
    launch.blockDim = (unsigned)form.threads;
    launch.dynamicSmemBytes = (size_t)form.shared;
    launch.stream = stream;
    launch.attrs = with;
    if (form.cluster) {
        with[launch.numAttrs].id = cudaLaunchAttributeClusterDimension;
        with[launch.numAttrs++].val.clusterDim = {(unsigned)form.cluster, 1, 1};
    }
    if (form.beside) {
        with[launch.numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization;
        with[launch.numAttrs++].val.programmaticStreamSerializationAllowed = 1;
    }
    return cudaLaunchKernelEx(&launch, kernel, Parameters(arguments)...);
}

// Multiprocessors that have this kernel leave all the room they can to shared memory, so that another one fits in beside it or
// behind it without waiting until they are empty.
template <class Kernel> static cudaError_t leave_shared(Kernel kernel) {
    return cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                cudaSharedmemCarveoutMaxShared);
}

#endif
