// The vocabulary inside a model file, as the plain data that text/ builds a tokenizer from: the one
// place where the two rooms meet.
//
// Thread rule: pure function.
#ifndef MOORING_ENGINE_VOCAB_FROM_FILE_H_
#define MOORING_ENGINE_VOCAB_FROM_FILE_H_

#include "base/result.h"
#include "load/model_file.h"
#include "text/vocab.h"

namespace mooring {

// kModelInvalid naming the key when something is missing or of the wrong kind.
Result<VocabSpec> ReadVocab(const ModelFile& file);

}  // namespace mooring

#endif  // MOORING_ENGINE_VOCAB_FROM_FILE_H_
