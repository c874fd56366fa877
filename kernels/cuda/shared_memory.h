// kernels/cuda/shared_memory.h - the dynamic shared memory of a kernel, by one name for all types. A host
// emulation defines its own.
#ifndef DELTOP_CUDA_SHARED_MEMORY_H
#define DELTOP_CUDA_SHARED_MEMORY_H

#ifndef SHARED_MEMORY
#define SHARED_MEMORY(name) extern __shared__ __align__(16) unsigned char name[]
#endif

#endif
