// How facts are said and asked in an evaluation of recall: several wordings, so that no single one
// decides. Those in kTuning may be looked at while something is tuned; the others never.
//
// Thread rule: constants.
#ifndef MOORING_EVAL_FACT_WORDINGS_H_
#define MOORING_EVAL_FACT_WORDINGS_H_

#include <array>
#include <string_view>

namespace mooring {

struct FactWording {
  std::string_view said;   // {0}: the subject, {1}: the number
  std::string_view reply;  // what the other side answered
  std::string_view asked;  // {0}: the subject
};

inline constexpr std::array<FactWording, 4> kTuningWordings = {{
    {"My {0} is {1}.", "Thank you, I will remember that.", "What is my {0}?"},
    {"Please note that my {0} is {1}.", "I have noted it.", "Please tell me my {0}."},
    {"For later: my {0} is {1}.", "Good to know.", "I forgot my {0}. What is it?"},
    {"By the way, my {0} is {1}.", "Thanks for telling me.", "Do you remember my {0}?"},
}};

inline constexpr std::array<FactWording, 4> kReportWordings = {{
    {"Keep in mind that my {0} is {1}.", "I will keep it in mind.", "Which number is my {0}?"},
    {"You should know that my {0} is {1}.", "Understood.", "Can you tell me what my {0} is?"},
    {"My {0} has changed, it is {1} now.", "All right.", "What is my {0} now?"},
    {"I want you to remember my {0}, it is {1}.", "I will.", "I need my {0}, what is it?"},
}};

// Things that have a number of four digits.
inline constexpr std::array<std::string_view, 12> kFactSubjects = {
    "gate code",   "locker number", "badge number",  "garage code",
    "room number", "suitcase code", "member number", "ticket number",
    "alarm code",  "desk number",   "parcel number", "bike lock code"};

}  // namespace mooring

#endif  // MOORING_EVAL_FACT_WORDINGS_H_
