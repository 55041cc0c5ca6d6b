// What a conversation file must fit: the model and everything that its pages depend on.
//
// Thread rule: pure function of a loaded runtime.
#ifndef MOORING_APPS_MODEL_IDENTITY_H_
#define MOORING_APPS_MODEL_IDENTITY_H_

#include <string>

#include "apps/runtime.h"
#include "load/model_file.h"
#include "talk/conversation_file.h"

namespace mooring {

// SHA-256 over the file's length, its dictionary, its directory and both ends of each tensor: tells
// models apart without reading gigabytes, and is the same wherever the file lies.
std::string ModelFingerprint(const ModelFile& file);

ConversationIdentity IdentityOf(const Runtime& runtime);

}  // namespace mooring

#endif  // MOORING_APPS_MODEL_IDENTITY_H_
