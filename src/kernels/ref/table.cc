#include "kernels/ref/ref.h"

namespace mooring::ref {

const Kernels kOperations = {.name = "ref",
                             .formats = {},
                             .RmsNorm = &RmsNorm,
                             .LayerNorm = &LayerNorm,
                             .Add = &Add,
                             .SwiGlu = &SwiGlu,
                             .Gelu = &Gelu,
                             .Softmax = &Softmax,
                             .QuantizeInt8 = &QuantizeInt8,
                             .QuantizeInt16 = &QuantizeInt16,
                             .RoundRow = &RoundRow,
                             .ArgMax = &ArgMax,
                             .LogSumExp = &LogSumExp,
                             .Append = &Append,
                             .AttendPages = &AttendPages,
                             .MergeAttention = &MergeAttention,
                             .FinishAttention = &FinishAttention};

}  // namespace mooring::ref
