#include "text/jinja.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace mooring::jinja {
namespace {

using ::testing::HasSubstr;

std::string Render(std::string_view source, const Json& variables = Json::object()) {
  const Result<Template> made = Template::Create(source);
  if (!made.ok()) return "LOAD: " + made.error().Message();
  const Result<std::string> text = made->Render(variables);
  return text.ok() ? *text : "ERROR: " + text.error().Message();
}

std::string Expr(const std::string& expression) {
  const Json variables = {{"s", "  Hello "},
                          {"l", {3, 1, 2}},
                          {"d", {{"a", 1}, {"b", {{"c", "x"}}}}},
                          {"u8", "h\xC3\xA9llo"},
                          {"n", nullptr}};
  return Render("{{ " + expression + " }}", variables);
}

struct ExprCase {
  const char* expression;
  const char* expected;
};
class Expression : public testing::TestWithParam<ExprCase> {};
TEST_P(Expression, GivesWhatTheReferenceGives) {
  EXPECT_EQ(Expr(GetParam().expression), GetParam().expected) << GetParam().expression;
}
INSTANTIATE_TEST_SUITE_P(
    Each, Expression,
    testing::Values(
        ExprCase{"1 + 2 * 3 - 4", "3"}, ExprCase{"7 // 2 ~ '|' ~ -7 // 2", "3|-4"},
        ExprCase{"-7 % 3", "2"}, ExprCase{"7 % -3", "-2"}, ExprCase{"7 / 2", "3.5"},
        ExprCase{"4 / 2", "2.0"}, ExprCase{"1.5 + 1", "2.5"}, ExprCase{"'a' + 'b'", "ab"},
        ExprCase{"'a' 'b'", "ab"}, ExprCase{"1 ~ 2", "12"}, ExprCase{"[1] + [2]", "[1, 2]"},
        ExprCase{"1 < 2 < 3", "True"}, ExprCase{"1 < 2 > 3", "False"}, ExprCase{"1 == 1.0", "True"},
        ExprCase{"'a' < 'b'", "True"}, ExprCase{"'ell' in s", "True"}, ExprCase{"3 in l", "True"},
        ExprCase{"'z' not in d", "True"}, ExprCase{"'a' in d", "True"},
        ExprCase{"not 1 == 2", "True"}, ExprCase{"0 or 'x'", "x"}, ExprCase{"'' and 'x'", ""},
        ExprCase{"none", "None"}, ExprCase{"missing", ""}, ExprCase{"true", "True"},
        ExprCase{"1 if false else 2", "2"}, ExprCase{"1 if false", ""}, ExprCase{"d.a", "1"},
        ExprCase{"d['b'].c", "x"}, ExprCase{"d.zz", ""},
        ExprCase{"d.items()", "[['a', 1], ['b', {'c': 'x'}]]"}, ExprCase{"d.get('q', 5)", "5"},
        ExprCase{"d.get('q')", "None"}, ExprCase{"l[0] ~ l[-1]", "32"}, ExprCase{"l[9]", ""},
        ExprCase{"l[1:]", "[1, 2]"}, ExprCase{"l[::-1]", "[2, 1, 3]"}, ExprCase{"l[:-1]", "[3, 1]"},
        ExprCase{"u8[1]", "\xC3\xA9"}, ExprCase{"u8[1:3]", "\xC3\xA9l"}, ExprCase{"u8|length", "5"},
        ExprCase{"s|trim", "Hello"}, ExprCase{"s.strip()|upper", "HELLO"},
        ExprCase{"'xxaxx'.strip('x')", "a"}, ExprCase{"s.lstrip()", "Hello "},
        ExprCase{"s.rstrip()", "  Hello"}, ExprCase{"'a,b,c'.split(',', 1)", "['a', 'b,c']"},
        ExprCase{"' a  b '.split()", "['a', 'b']"}, ExprCase{"'a</t>b'.split('</t>')[-1]", "b"},
        ExprCase{"'abc'.startswith('ab')", "True"}, ExprCase{"'abc'.endswith('ab')", "False"},
        ExprCase{"'aXbX'.replace('X', '-')", "a-b-"},
        ExprCase{"'aXbX'|replace('X', '-', 1)", "a-bX"}, ExprCase{"l|join('-')", "3-1-2"},
        ExprCase{"l|first ~ l|last", "32"}, ExprCase{"missing|default('z')", "z"},
        ExprCase{"''|default('z')", ""}, ExprCase{"''|default('z', true)", "z"},
        ExprCase{"'heLLo wOrld'|capitalize", "Hello world"},
        ExprCase{"'heLLo wOrld'|title", "Hello World"}, ExprCase{"'ab'|list", "['a', 'b']"},
        ExprCase{"{'a': [1, none, true], 'b': \"it's\"}|tojson",
                 "{\"a\": [1, null, true], \"b\": \"it's\"}"},
        ExprCase{"[1, [2]]|tojson(indent=2)", "[\n  1,\n  [\n    2\n  ]\n]"},
        ExprCase{"\"it's\" is string", "True"}, ExprCase{"[\"it's\"]", "[\"it's\"]"},
        ExprCase{"missing is defined", "False"}, ExprCase{"s is defined", "True"},
        ExprCase{"n is none", "True"}, ExprCase{"n is not none", "False"},
        ExprCase{"d is mapping", "True"}, ExprCase{"1 is number and l is iterable", "True"},
        ExprCase{"2 is in [1, 2]", "True"}, ExprCase{"'\\n\\x41\\u00e9'", "\nA\xC3\xA9"},
        ExprCase{"range(3)|list", "[0, 1, 2]"}, ExprCase{"range(5, 0, -2)|list", "[5, 3, 1]"},
        ExprCase{"'12'|int + 1", "13"}, ExprCase{"(1, 2)", "[1, 2]"}, ExprCase{"-2|abs", "2"},
        ExprCase{"[{'r': 1}, {'r': 2}]|selectattr('r', 'equalto', 2)|list", "[{'r': 2}]"},
        ExprCase{"[{'r': 1}, {'r': 2}]|map(attribute='r')|join(',')", "1,2"},
        ExprCase{"dict(a=1).a", "1"}, ExprCase{"'}}' ~ '%}'", "}}%}"}));

TEST(Jinja, Statements) {
  EXPECT_EQ(Render("{% if a %}1{% elif b %}2{% else %}3{% endif %}", {{"b", true}}), "2");
  EXPECT_EQ(Render("{% for i in [1,2,3] if i != 2 %}{{ loop.index }}/{{ loop.length }}:{{ i }}"
                   "{{ ',' if not loop.last }}{% else %}none{% endfor %}"),
            "1/2:1,2/2:3");
  EXPECT_EQ(Render("{% for i in [] %}x{% else %}none{% endfor %}"), "none");
  EXPECT_EQ(Render("{% for k, v in {'a': 1}.items() %}{{ k }}={{ v }}{% endfor %}"), "a=1");
  EXPECT_EQ(Render("{% for c in 'ab' %}{{ loop.previtem }}{{ c }}{{ loop.nextitem }};{% endfor %}"),
            "ab;ab;");
  EXPECT_EQ(Render("{% for i in range(9) %}{% if i == 1 %}{% continue %}{% endif %}"
                   "{% if i == 3 %}{% break %}{% endif %}{{ i }}{% endfor %}"),
            "02");
  EXPECT_EQ(Render("{% set x = 1 %}{% for i in [1] %}{% set x = 2 %}{{ x }}{% endfor %}{{ x }}"),
            "21");
  EXPECT_EQ(Render("{% set ns = namespace(x=1) %}{% for i in [1,2] %}{% set ns.x = ns.x + i %}"
                   "{% endfor %}{{ ns.x }}"),
            "4");
  EXPECT_EQ(Render("{% set a, b = 1, 2 %}{{ b }}{{ a }}"), "21");
  EXPECT_EQ(Render("{% set t %}x{{ 1 }}{% endset %}[{{ t }}]"), "[x1]");
  EXPECT_EQ(Render("{% generation %}x{% endgeneration %}"), "x");
  EXPECT_EQ(Render("a{# no {{ x }} #}b{% raw %}{{ x }}{% endraw %}c"), "ab{{ x }}c");
}

TEST(Jinja, WhitespaceAsHuggingFaceSetsIt) {
  EXPECT_EQ(Render("  {% if true %}\n  x\n  {% endif %}\ny\n"), "  x\ny");
  EXPECT_EQ(Render("a {%- if true -%} \n b {%- endif %}\n c"), "ab c");
  EXPECT_EQ(Render("a\n  {{- 'b' -}}\n  c"), "abc");
  EXPECT_EQ(Render("a  {% if true %}b{% endif %}"), "a  b");
  EXPECT_EQ(Render("  {%+ if true +%}\nb{% endif %}"), "  \nb");
  EXPECT_EQ(Render("  {# c #}\nb"), "b");
  EXPECT_EQ(Render("{{ 1 }}\n\n"), "1\n");
  EXPECT_EQ(Render("a\r\nb"), "a\nb");
}

struct RefusedCase {
  const char* source;
  const char* names;
};
class RefusedAtLoad : public testing::TestWithParam<RefusedCase> {};
TEST_P(RefusedAtLoad, NamesTheConstructAndItsLine) {
  const Result<Template> made = Template::Create("line one\n" + std::string(GetParam().source));
  ASSERT_FALSE(made.ok()) << GetParam().source;
  EXPECT_EQ(made.error().kind, ErrorKind::kModelInvalid);
  EXPECT_THAT(made.error().Message(), HasSubstr(GetParam().names));
  EXPECT_THAT(made.error().where, HasSubstr("line 2"));
  EXPECT_THAT(made.error().remedy, HasSubstr("--template NAME|FILE"));
}
INSTANTIATE_TEST_SUITE_P(
    Each, RefusedAtLoad,
    testing::Values(RefusedCase{"{% macro f() %}{% endmacro %}", "macro"},
                    RefusedCase{"{% include 'x' %}", "include"},
                    RefusedCase{"{% import 'x' as y %}", "import"},
                    RefusedCase{"{{ x|frobnicate }}", "frobnicate"},
                    RefusedCase{"{% if 0 %}{{ x|frobnicate }}{% endif %}", "frobnicate"},
                    RefusedCase{"{{ x is frobnicated }}", "frobnicated"},
                    RefusedCase{"{{ frob() }}", "frob"},
                    RefusedCase{"{{ x.__class__() }}", "__class__"},
                    RefusedCase{"{{ x()() }}", "x"}, RefusedCase{"{{ 2 ** 3 }}", "**"},
                    RefusedCase{"{% for i in x recursive %}{% endfor %}", "recursive"},
                    RefusedCase{"{% if x %}", "endif"}, RefusedCase{"{% endif %}", "not begun"},
                    RefusedCase{"{{ 'abc }}", "string"}, RefusedCase{"{{ x", "no end"},
                    RefusedCase{"{% raw %}", "raw"}, RefusedCase{"{# x", "comment"},
                    RefusedCase{"{{ 1 + }}", "value"}, RefusedCase{"{{ @ }}", "@"},
                    RefusedCase{"{% break %}", "break"}, RefusedCase{"{{ [1, ) }}", "missing"},
                    RefusedCase{"{{ 99999999999999999999 }}", "range"},
                    RefusedCase{"{{ dict(*x) }}", "spreads"}));

TEST(Jinja, DeepTemplatesAreRefused) {
  const auto repeat = [](const std::string& text, int count) {
    std::string out;
    for (int i = 0; i < count; ++i) out += text;
    return out;
  };
  constexpr int kDeep = 100000;
  EXPECT_THAT(Render(repeat("{% if 1 %}", kDeep)), HasSubstr("nests"));
  EXPECT_THAT(Render("{{ " + repeat("(", kDeep) + repeat(")", kDeep) + " }}"), HasSubstr("nests"));
  EXPECT_THAT(Render("{{ " + repeat("[", kDeep) + repeat("]", kDeep) + " }}"), HasSubstr("nests"));
  EXPECT_THAT(Render("{{ " + repeat("not ", kDeep) + "1 }}"), HasSubstr("nests"));
  EXPECT_THAT(Render("{{ " + repeat("-", kDeep) + "1 }}"), HasSubstr("nests"));
  EXPECT_THAT(Render("{{ 1" + repeat(" + 1", kDeep) + " }}"), HasSubstr("longer"));
  EXPECT_THAT(Render("{{ x" + repeat(".a", kDeep) + " }}"), HasSubstr("longer"));
  EXPECT_THAT(Render("{{ x" + repeat("|trim", kDeep) + " }}"), HasSubstr("longer"));
  EXPECT_THAT(Render("{{ 1" + repeat(" if 1 else 1", kDeep) + " }}"), HasSubstr("nests"));
  EXPECT_EQ(Render(repeat("{% if 1 %}", 50) + "x" + repeat("{% endif %}", 50)), "x");
  EXPECT_EQ(Render("{{ " + repeat("(", 50) + "1" + repeat(")", 50) + " }}"), "1");
}

Error RenderError(std::string_view source) {
  const Result<Template> made = Template::Create(source);
  EXPECT_TRUE(made.ok()) << source;
  const Result<std::string> text = made->Render(Json::object());
  EXPECT_FALSE(text.ok()) << source;
  return text.ok() ? Error{} : text.error();
}

TEST(Jinja, BudgetsAreNamed) {
  const std::string forever = "{% for a in range(60000) %}{% for b in range(60000) %}";
  Error error = RenderError(forever + "{% endfor %}{% endfor %}");
  EXPECT_EQ(error.kind, ErrorKind::kResources);
  EXPECT_THAT(error.what, HasSubstr("budget of"));
  error = RenderError("{% for a in range(60000) %}{{ 'xxxxxxxxxxxxxxxx' }}{% endfor %}");
  EXPECT_EQ(error.kind, ErrorKind::kResources);
  EXPECT_THAT(error.what, HasSubstr("output"));
  error = RenderError("{{ range(65537)|length }}");
  EXPECT_THAT(error.what, HasSubstr("65536"));
  EXPECT_EQ(Render("{{ range(65536)|length }}"), "65536");
  // What grows must stop: strings, lists, nesting, namespaces, replacements.
  for (const char* bomb :
       {"{% set ns = namespace(x='x') %}{% for a in range(99) %}{% set ns.x = ns.x ~ ns.x %}"
        "{% endfor %}",
        "{% set ns = namespace(x=[1]) %}{% for a in range(99) %}{% set ns.x = ns.x + ns.x %}"
        "{% endfor %}",
        "{% set ns = namespace(x=[1]) %}{% for a in range(60) %}{% set ns.x = [ns.x, ns.x] %}"
        "{% endfor %}",
        "{% set ns = namespace(x='a') %}{% for a in range(99) %}"
        "{% set ns.x = ns.x|replace('a', 'aaaaaaaaaaaaaaaa') %}{% endfor %}"}) {
    EXPECT_EQ(RenderError(bomb).kind, ErrorKind::kResources) << bomb;
  }
  error = RenderError(
      "{% set ns = namespace(x=1) %}{% for a in range(99) %}{% set ns.x = [ns.x] %}"
      "{% endfor %}");
  EXPECT_THAT(error.Message(), HasSubstr("nests deeper"));
}

TEST(Jinja, FaultsOfValuesAreErrors) {
  for (const char* source :
       {"{{ x.y }}", "{{ x['y'] }}", "{{ 1 + 'a' }}", "{{ 1 / 0 }}", "{{ 1 % 0 }}",
        "{{ 9223372036854775807 + 1 }}", "{{ 1 < 'a' }}", "{{ x.strip() }}", "{{ 1 in 2 }}",
        "{% for a in 1 %}{% endfor %}", "{% set a, b = [1] %}", "{% set q.x = 1 %}",
        "{{ 'a'.split('') }}", "{{ range('a') }}", "{{ range(1, 2, 0) }}", "{{ 1|length }}",
        "{{ [1][::0] }}", "{{ -x }}", "{{ 1.items() }}"}) {
    EXPECT_EQ(RenderError(source).kind, ErrorKind::kModelInvalid) << source;
  }
  const Error refusal = RenderError("\n{{ raise_exception('roles must alternate') }}");
  EXPECT_EQ(refusal.kind, ErrorKind::kUsage);
  EXPECT_EQ(refusal.what, "roles must alternate");
  EXPECT_THAT(refusal.where, HasSubstr("line 2"));
}

TEST(Jinja, BytesThatAreNotTextDoNoHarm) {
  const Json variables = {{"x", "a\xFF\xC3"}};
  EXPECT_EQ(Render("{{ x }}", variables), "a\xFF\xC3");
  EXPECT_EQ(Render("{{ x|length }}", variables), "3");
  EXPECT_EQ(Render("{{ x|tojson }}", variables), "\"a\xEF\xBF\xBD\xEF\xBF\xBD\"");
}

}  // namespace
}  // namespace mooring::jinja
