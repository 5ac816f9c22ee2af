// An arrow::MemoryPool whose buffers lie in a Plasmon store.
//
// Arrow's buffers keep a bare pointer to the pool that they came from, and may outlive everything
// else. So a StorePool is never destroyed: let_go() and the last buffer together end the pool in
// the store, and the pool that remains refuses to allocate.
#pragma once

#include <arrow/memory_pool.h>
#include <arrow/status.h>
#include <arrow/util/config.h>

#include <atomic>
#include <cstdint>
#include <string>

#include "plasmon_pool.h"

namespace plasmon {

class StorePool : public arrow::MemoryPool {
public:
    explicit StorePool(const plasmon_pool_api *api) : api_(*api) { api_.retain(api_.pool); }

    using arrow::MemoryPool::Allocate;
    using arrow::MemoryPool::Free;
    using arrow::MemoryPool::Reallocate;

    arrow::Status Allocate(int64_t size, int64_t alignment, uint8_t **out) override {
        ARROW_RETURN_NOT_OK(check(size, alignment));
        if (!begin_use()) {
            return arrow::Status::Invalid("this Plasmon memory pool has ended: make another one");
        }
        const int code = api_.allocate(api_.pool, size, out);
        if (code != 0) {
            end_use();
            return failure(size, code);
        }
        return arrow::Status::OK();
    }

    arrow::Status Reallocate(int64_t, int64_t size, int64_t alignment, uint8_t **ptr) override {
        ARROW_RETURN_NOT_OK(check(size, alignment));
        const int code = api_.reallocate(api_.pool, size, ptr);
        return code == 0 ? arrow::Status::OK() : failure(size, code);
    }

    void Free(uint8_t *buffer, int64_t, int64_t) override {
        api_.release(api_.pool, buffer);
        end_use();
    }

    void ReleaseUnused() override {
        if (!begin_use()) return;
        api_.release_unused(api_.pool);
        end_use();
    }

    int64_t bytes_allocated() const override { return figures().allocated_bytes; }
    int64_t max_memory() const override { return figures().allocated_bytes_max; }
    int64_t total_bytes_allocated() const override { return figures().total_bytes; }
    int64_t num_allocations() const override { return figures().allocations; }
    std::string backend_name() const override { return "plasmon"; }

    // Only buffers refer to it any more.
    void let_go() { end_use(); }

private:
    static arrow::Status check(int64_t size, int64_t alignment) {
        if (size < 0) return arrow::Status::Invalid("negative size of a buffer");
        if (alignment > 64) {
            return arrow::Status::NotImplemented("buffers in a Plasmon store are aligned to 64");
        }
        return arrow::Status::OK();
    }

    static arrow::Status failure(int64_t size, int code) {
        return arrow::Status::OutOfMemory("Plasmon has no memory for a buffer of ", size,
                                          " bytes: error ", code,
                                          " (see docs/errors.md; 3 means that the store is full)");
    }

    plasmon_pool_figures figures() const {
        plasmon_pool_figures found = {};
        if (!begin_use()) return found;
        api_.figures(api_.pool, &found);
        end_use();
        return found;
    }

    // Keeps the pool in the store for one more use; false when it has ended. A thread that only
    // looked whether it has ended could use it while another one ends it.
    bool begin_use() const {
        int64_t uses = uses_.load(std::memory_order_relaxed);
        while (uses > 0) {
            if (uses_.compare_exchange_weak(uses, uses + 1, std::memory_order_acquire,
                                            std::memory_order_relaxed)) {
                return true;
            }
        }
        return false;
    }

    void end_use() const {
        if (uses_.fetch_sub(1, std::memory_order_acq_rel) == 1) api_.close(api_.pool);
    }

    const plasmon_pool_api api_;
    // Buffers in use, calls, and one for the maker of the pool. At zero it has ended for good.
    mutable std::atomic<int64_t> uses_{1};
};

inline StorePool *make_pool(const void *api) {
    return new StorePool(static_cast<const plasmon_pool_api *>(api));
}

inline const char *arrow_version() { return ARROW_VERSION_STRING; }

}  // namespace plasmon
