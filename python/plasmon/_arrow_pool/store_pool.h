// An arrow::MemoryPool whose buffers lie in a Plasmon store.
//
// Arrow's buffers keep a bare pointer to the pool that they came from, and may outlive everything
// else. So a StorePool is never destroyed: let_go() and the last buffer together end the pool in
// the store, and what stays behind refuses to allocate.
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
        uses_.fetch_add(1, std::memory_order_relaxed);
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
        if (!ended_.load(std::memory_order_acquire)) api_.release_unused(api_.pool);
    }

    int64_t bytes_allocated() const override { return figures().allocated_bytes; }
    int64_t max_memory() const override { return figures().allocated_bytes_max; }
    int64_t total_bytes_allocated() const override { return figures().total_bytes; }
    int64_t num_allocations() const override { return figures().allocations; }
    std::string backend_name() const override { return "plasmon"; }

    // Nobody but buffers refers to it any more.
    void let_go() { end_use(); }

private:
    arrow::Status check(int64_t size, int64_t alignment) const {
        if (size < 0) return arrow::Status::Invalid("negative size of a buffer");
        if (alignment > 64) {
            return arrow::Status::NotImplemented("buffers in a Plasmon store are aligned to 64");
        }
        if (ended_.load(std::memory_order_acquire)) {
            return arrow::Status::Invalid("this Plasmon memory pool has ended: make another one");
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
        if (!ended_.load(std::memory_order_acquire)) api_.figures(api_.pool, &found);
        return found;
    }

    // Buffers in use, and one for whoever made the pool.
    void end_use() {
        if (uses_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
            ended_.store(true, std::memory_order_release);
            api_.close(api_.pool);
        }
    }

    const plasmon_pool_api api_;
    std::atomic<int64_t> uses_{1};
    std::atomic<bool> ended_{false};
};

inline StorePool *make_pool(const void *api) {
    return new StorePool(static_cast<const plasmon_pool_api *>(api));
}

inline const char *arrow_version() { return ARROW_VERSION_STRING; }

}  // namespace plasmon
