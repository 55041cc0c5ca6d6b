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

// A thing that has a number of four digits, and who asks for it in other words: no word of meaning
// is that of the subject or of a way to say the fact.
struct FactSubject {
  std::string_view name;
  std::string_view tuning;
  std::string_view report;
};

inline constexpr std::array<FactSubject, 12> kFactSubjects = {{
    {"gate code", "Which digits open the entrance of the yard?",
     "What do I type at the entrance to the courtyard?"},
    {"locker number", "In which cupboard at the gym did I leave the sports shoes?",
     "Which box at the swimming pool holds the clothes?"},
    {"badge number", "What is printed on the card that I wear at work?",
     "Which digits are on the company pass?"},
    {"garage code", "How do I get to where the car is parked?",
     "What must I press so that the door in front of the car lifts?"},
    {"room number", "Which hotel door leads to the bed?", "Where in the hotel am I sleeping?"},
    {"suitcase code", "How can I open the luggage?",
     "What do I dial to get at the travel clothes?"},
    {"member number", "Under which digits does the club list me?",
     "Which digits do they ask for when I enter the club?"},
    {"ticket number", "Which digits stand on the slip for the train?",
     "What is printed on the train pass?"},
    {"alarm code", "How do I silence the siren at home?",
     "What stops the burglar siren when I come in?"},
    {"desk number", "Where do I sit at the office?", "Which table at the office is for me?"},
    {"parcel number", "How do I track what the mail is bringing?",
     "Which digits track the delivery?"},
    {"bike lock code", "What do I dial to free the bicycle chain?",
     "Which digits undo the chain on the two wheels?"},
}};

// Words that say nothing of what a sentence is about.
inline constexpr std::array<std::string_view, 20> kFunctionWords = {
    "a",  "am", "at", "do",   "for", "i",  "in",   "is",  "it", "me",
    "my", "of", "on", "that", "the", "to", "what", "you", ".",  "?"};

}  // namespace mooring

#endif  // MOORING_EVAL_FACT_WORDINGS_H_
