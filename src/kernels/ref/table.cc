#include "kernels/ref/ref.h"

namespace mooring::ref {

const Kernels kOperations = {.name = "ref",
                             .formats = {},
                             .RmsNorm = &RmsNorm,
                             .Add = &Add,
                             .SwiGlu = &SwiGlu,
                             .QuantizeRow = &QuantizeRow,
                             .RoundRow = &RoundRow,
                             .ArgMax = &ArgMax,
                             .LogSumExp = &LogSumExp,
                             .Append = &Append,
                             .AttendPages = &AttendPages,
                             .MergeAttention = &MergeAttention,
                             .FinishAttention = &FinishAttention};

}  // namespace mooring::ref
