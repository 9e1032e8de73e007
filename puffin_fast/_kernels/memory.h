/* Large buffers: before they are written for the first time, and after they were read for the last time. */
#ifndef PF_MEMORY_H
#define PF_MEMORY_H

#include <stddef.h>
#include <stdint.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif

/* Asks for huge pages for the part of a buffer that consists of whole ones: one page fault instead of 512. NumPy does the
 * same for its arrays. Does nothing where the system has no huge pages. */
static inline void pf_ask_for_huge_pages(void *data, size_t size) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    const uintptr_t huge = (uintptr_t)1 << 21;
    uintptr_t first = ((uintptr_t)data + huge - 1) & ~(huge - 1), end = ((uintptr_t)data + size) & ~(huge - 1);
    if (size >= 2 * huge && end > first) (void)madvise((void *)first, end - first, MADV_HUGEPAGE);
#else
    (void)data, (void)size;
#endif
}

/* Gives the memory of the whole pages of a buffer back to the system; their contents are lost. Huge pages stay whole.
 * Does nothing on other systems. */
static inline void pf_give_back(void *data, size_t size) {
#if defined(__linux__)
    const uintptr_t page = (uintptr_t)1 << 21;
    uintptr_t first = ((uintptr_t)data + page - 1) & ~(page - 1), end = ((uintptr_t)data + size) & ~(page - 1);
    if (end > first) (void)madvise((void *)first, end - first, MADV_DONTNEED);
#else
    (void)data, (void)size;
#endif
}

#endif
