#include "onstream/device/cuda/words.hpp"

#include <algorithm>
#include <array>

#include "onstream/device/cuda/check.hpp"

namespace onstream::cuda {

namespace {

// The driver takes fewer than 256 at once.
constexpr std::size_t kBatch = 128;

CUstreamBatchMemOpParams parameters_of(const WordOp& op) {
  const auto address = reinterpret_cast<CUdeviceptr>(op.word);
  const bool wide = op.bytes == 8;
  CUstreamBatchMemOpParams out{};
  if (op.act == WordAct::write) {
    out.writeValue.operation = wide ? CU_STREAM_MEM_OP_WRITE_VALUE_64 : CU_STREAM_MEM_OP_WRITE_VALUE_32;
    out.writeValue.address = address;
    out.writeValue.value64 = op.value;                     // little-endian: its low half is `value`
    out.writeValue.flags = CU_STREAM_WRITE_VALUE_DEFAULT;  // with a fence before it
  } else {
    out.waitValue.operation = wide ? CU_STREAM_MEM_OP_WAIT_VALUE_64 : CU_STREAM_MEM_OP_WAIT_VALUE_32;
    out.waitValue.address = address;
    out.waitValue.value64 = op.value;
    out.waitValue.flags = op.act == WordAct::wait_equal ? CU_STREAM_WAIT_VALUE_EQ : CU_STREAM_WAIT_VALUE_GEQ;
  }
  return out;
}

}  // namespace

void operate_on_words(const Gpu& gpu, std::span<const WordOp> ops, cudaStream_t stream) {
  std::array<CUstreamBatchMemOpParams, kBatch> batch;
  while (!ops.empty()) {
    const std::size_t count = std::min(ops.size(), kBatch);
    for (std::size_t i = 0; i < count; ++i) batch[i] = parameters_of(ops[i]);
    const CUresult result = driver().stream_batch_mem_op(stream, static_cast<unsigned>(count), batch.data(), 0);
    if (result == CUDA_ERROR_NOT_SUPPORTED) {
      fail(ErrorCode::unsupported, "GPU ", gpu.ordinal(), " (", gpu.name(), ") has no stream memory operations of ",
           ops[0].bytes, " B: ", text_of(result));
    }
    check(result, "enqueueing ", count, " stream memory operations, the first on the word at ", ops[0].word,
          ", on GPU ", gpu.ordinal());
    ops = ops.subspan(count);
  }
}

}  // namespace onstream::cuda
