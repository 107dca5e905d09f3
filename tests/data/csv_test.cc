#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/opened.h"
#include "data/selection.h"
#include "plan/legality.h"

namespace taxon::data {
namespace {

using test::failure_of;
using test::put;
using testing::ElementsAre;
using testing::HasSubstr;

class Csv : public testing::Test {
 protected:
  Csv() { put(storage_, "/d/train.csv", std::string("x,y,class\n1,2,0\n3,-4e1,1\n")); }
  Datasets open(plan::Options options) {
    plan_.options = std::move(options);
    return open_datasets(plan_, storage_);
  }
  void train(const std::string& text) { put(storage_, "/d/train.csv", text); }
  std::string failure(plan::Options options = {}) {
    plan_.options = std::move(options);
    return failure_of(plan_, storage_);
  }
  MemoryStorage storage_;
  plan::DataPlan plan_ = test::data_plan("csv");
};

TEST_F(Csv, ColumnsAndTheLabel) {
  const Datasets sets = open({{"standardise", false}});
  EXPECT_EQ(sets.train->shape(), (SampleShape{.input = {2}, .classes = 2}));
  EXPECT_THAT(test::all_of(*sets.train).first, ElementsAre(1, 2, 3, -40));
  EXPECT_THAT(test::all_of(*sets.train).second, ElementsAre(0, 1));
  EXPECT_EQ(sets.test, nullptr);
}

TEST_F(Csv, TheLabelByNamePlaceAndNumber) {
  train("0,5,6\r\n1,7,8\r\n");
  for (const char* label : {"first", "1"})
    EXPECT_THAT(test::all_of(*open({{"label", label}, {"standardise", false}}).train).first,
                ElementsAre(5, 6, 7, 8));
  train("class;a;b\n0;5;6\n1;\"7\";8");
  EXPECT_THAT(
      test::all_of(*open({{"label", "class"}, {"separator", ";"}, {"standardise", false}}).train).first,
      ElementsAre(5, 6, 7, 8));
  EXPECT_THAT(failure({{"label", "klass"}, {"separator", ";"}}),
              HasSubstr("data.label: /d/train.csv has no column \"klass\"; its columns are class, a, b"));
  EXPECT_THAT(failure({{"separator", ";;"}}), HasSubstr("data.separator: must be one character, or tab"));
}

TEST_F(Csv, StandardisedByTheTrainingSet) {
  put(storage_, "/d/test.csv", std::string("x,y,class\n2,2,1\n"));
  const Datasets sets = open({});
  EXPECT_THAT(test::all_of(*sets.train).first, ElementsAre(-1, 1, 1, -1));
  EXPECT_THAT(test::all_of(*sets.test).first, ElementsAre(0, 1));
}

TEST_F(Csv, AColumnThatIsAlwaysTheSameBecomesZero) {
  train("0.1,0\n0.1,1\n0.1,0\n");
  put(storage_, "/d/test.csv", std::string("0.2,1\n"));
  const Datasets sets = open({});
  EXPECT_THAT(test::all_of(*sets.train).first, ElementsAre(0, 0, 0));
  EXPECT_THAT(test::all_of(*sets.test).first, ElementsAre(testing::FloatNear(0.1f, 1e-6f)));
}

TEST_F(Csv, AByteOrderMarkIsNoPartOfTheFirstField) {
  train(
      "\xef\xbb\xbf"
      "1,2,0\n3,4,1\n");
  EXPECT_THAT(test::all_of(*open({{"standardise", false}}).train).first, ElementsAre(1, 2, 3, 4));
}

TEST_F(Csv, WhatIsNoFiniteFloatIsRefused) {
  train("1,2,0\n3e300,4,1\n");
  EXPECT_THAT(failure(), HasSubstr("row 2: its field 1 is \"3e300\", and a finite number is wanted"));
}

TEST_F(Csv, Shaped) {
  train("1,2,3,4,0\n5,6,7,8,1\n");
  EXPECT_THAT(open({{"shape", "[1, 2, 2]"}}).train->shape().input, ElementsAre(1, 2, 2));
  EXPECT_THAT(failure({{"shape", "[3]"}}),
              HasSubstr("data.shape: [3] are 3 numbers, and /d/train.csv has 4 columns beside the label"));
}

TEST_F(Csv, TargetsAreColumnsOfRealNumbers) {
  train("size,price,age,rent\n1,-2.5,3,0.5\n5,4,7,-0.25\n");
  put(storage_, "/d/test.csv", std::string("size,price,age,rent\n2,3,4,1e9\n"));
  const Datasets sets = open({{"targets", "[price, 4]"}, {"standardise", false}});
  EXPECT_EQ(sets.train->shape(),
            (SampleShape{.input = {2}, .classes = 2, .target = {2}, .target_type = DType::Float32}));
  EXPECT_EQ(describe(sets.train->shape()), "inputs float32 [2] and targets float32 [2]");
  const Samples samples = test::samples_of(*sets.train);
  EXPECT_THAT(test::all_of(samples.parts[0]), ElementsAre(1, 3, 5, 7));
  EXPECT_THAT(test::all_of(samples.labels), ElementsAre(-2.5, 0.5, 4, -0.25));
  EXPECT_THAT(test::all_of(test::samples_of(*sets.test).labels), ElementsAre(3, 1e9));
  EXPECT_THAT(failure({{"targets", "[prize]"}}),
              HasSubstr("data.targets: /d/train.csv has no column \"prize\"; its columns are size, price"));
}

TEST_F(Csv, TargetsStandInPlaceOfALabel) {
  const auto broken = [](plan::Options options) {
    plan::Plan plan;
    plan.data.options = std::move(options);
    const plan::Catalogue known;
    return find_dataset("csv").rules.front().broken({plan, 1, known}).has_value();
  };
  EXPECT_TRUE(broken({{"targets", "[price]"}, {"label", "first"}}));
  EXPECT_TRUE(broken({{"targets", "[price]"}, {"classes", 4}}));
  EXPECT_FALSE(broken({{"targets", "[price]"}}));
  EXPECT_FALSE(broken({{"label", "first"}, {"classes", 4}}));
}

TEST_F(Csv, TargetsAreStandardisedIfAsked) {
  train("1,10\n2,14\n");
  put(storage_, "/d/test.csv", std::string("1,16\n"));
  plan::Options options = {{"targets", "[last]"}, {"standardise_targets", true}};
  const Datasets sets = open(options);
  EXPECT_THAT(test::all_of(test::samples_of(*sets.train).labels), ElementsAre(-1, 1));
  EXPECT_THAT(test::all_of(test::samples_of(*sets.test).labels), ElementsAre(2));
}

TEST_F(Csv, InputsAreTensorsOfColumns) {
  train("a,b,word,next,odd,class\n1,2,300,7,1,0\n3,4,16777217,8,0,1\n");
  const Datasets sets =
      open({{"inputs", "[int64:word..next, a, bool:odd, float32:b a]"}, {"standardise", false}});
  EXPECT_EQ(sets.train->shape(),
            (SampleShape{.input = {2},
                         .classes = 2,
                         .input_type = DType::Int64,
                         .more = {{{1}, DType::Float32}, {{1}, DType::UInt8}, {{2}, DType::Float32}}}));
  EXPECT_EQ(describe(sets.train->shape()),
            "inputs int64 [2], float32 [1], bool [1], float32 [2] and one int64 label");
  const Samples samples = test::samples_of(*sets.train);
  EXPECT_THAT(test::all_of(samples.parts[0]), ElementsAre(300, 7, 16777217, 8));
  EXPECT_THAT(test::all_of(samples.parts[1]), ElementsAre(1, 3));
  EXPECT_THAT(test::all_of(samples.parts[2]), ElementsAre(1, 0));
  EXPECT_THAT(test::all_of(samples.parts[3]), ElementsAre(2, 1, 4, 3));
  EXPECT_THAT(failure({{"inputs", "[int64:wort]"}}), HasSubstr("data.inputs: /d/train.csv has no column"));
  EXPECT_THAT(failure({{"inputs", "[bool:]"}}), HasSubstr("data.inputs: a tensor without a column"));
  EXPECT_THAT(failure({{"inputs", "[bool:word]"}}),
              HasSubstr("row 2: its column 3 is 300, and 0 and 1 are wanted"));
  train("1.5,0\n");
  EXPECT_THAT(failure({{"inputs", "[int64:1]"}}),
              HasSubstr("row 1: its column 1 is 1.5, and whole numbers from 0 on are wanted"));
}

TEST_F(Csv, PartsAndTargetsOfASelectionAreItsSamples) {
  train("1,0,10\n2,1,20\n3,0,30\n");
  const Datasets sets = open({{"targets", "[last]"}, {"inputs", "[1, bool:2]"}, {"standardise", false}});
  const auto some =
      select(std::shared_ptr<const Dataset>(sets.train.get(), [](auto*) {}), Order::AsTheyLie, 0, 1, 2);
  const Samples samples = test::samples_of(*some);
  EXPECT_THAT(test::all_of(samples.parts[0]), ElementsAre(2, 3));
  EXPECT_THAT(test::all_of(samples.parts[1]), ElementsAre(1, 0));
  EXPECT_THAT(test::all_of(samples.labels), ElementsAre(20, 30));
}

TEST_F(Csv, FaultyRowsAreNamedByTheirNumberInTheFile) {
  train("1,2,0\n\n3,4\n5,six,0\n7,8,1\n9,inf,1\n1,1,1.5\n");
  EXPECT_THAT(failure(), HasSubstr("/d/train.csv: row 3: has 2 fields, and the first row has 3"));
  plan_.faulty = plan::OnFaulty::Skip;
  const Datasets sets = open({{"standardise", false}});
  EXPECT_THAT(test::all_of(*sets.train).first, ElementsAre(1, 2, 7, 8));
  const std::string news = sets.faults->news().value();
  EXPECT_THAT(news, HasSubstr("4 faulty samples are left out"));
  EXPECT_THAT(news, HasSubstr("row 4: its field 2 is \"six\""));
  EXPECT_THAT(news, HasSubstr("row 6: its field 2 is \"inf\""));
  EXPECT_THAT(news, HasSubstr("row 7: its label is 1.5, and whole numbers from 0 to 1 are wanted"));
}

TEST_F(Csv, RowsThatAreLeftOutDoNotScaleTheOthers) {
  train("0,0,0\n1000,1000,0.5\n2,4,1\n");
  plan_.faulty = plan::OnFaulty::Skip;
  EXPECT_THAT(test::all_of(*open({}).train).first, ElementsAre(-1, -1, 1, 1));
}

TEST_F(Csv, ColumnsOfAllSetsHaveTheSameNames) {
  put(storage_, "/d/test.csv", std::string("y,x,class\n2,2,1\n"));
  EXPECT_THAT(failure(), HasSubstr("/d/test.csv: its column 1 is \"y\", and the training set's is \"x\""));
}

TEST_F(Csv, SignsOfNumbers) {
  train("+1,-2,0\n+.5,+2e+1,1\n");
  EXPECT_THAT(test::all_of(*open({{"standardise", false}}).train).first, ElementsAre(1, -2, 0.5, 20));
  for (const char* text : {"++5", "+-5", "+", "+ 5"}) {
    train(std::string("1,0\n") + text + ",1\n");
    EXPECT_THAT(failure(), HasSubstr("row 2: its field 1 is \"")) << text;
  }
}

TEST_F(Csv, LinesMayEndInTwoCharacters) {
  train("a,b\r\n1,0\r\n\r\n2\r\n");
  EXPECT_THAT(failure(), HasSubstr("row 4: has 1 field, and"));
}

TEST_F(Csv, HeadersAreAsTheOptionSays) {
  EXPECT_THAT(failure({{"header", "no"}}), HasSubstr("row 1: its field 1 is \"x\""));
  train("1,0\n2,1\n");
  EXPECT_EQ(open({{"header", "yes"}}).train->size(), 1);
  train("1,2\n");
  EXPECT_THAT(failure({{"header", "yes"}}), HasSubstr("/d/train.csv: has no row of numbers"));
}

TEST_F(Csv, AFaultyFirstRowIsNoHeader) {
  for (const char* field : {"", " ", "nan", "-inf", "1e999"}) {
    train(std::string("1,") + field + ",0\n3,4,1\n");
    EXPECT_THAT(failure(), HasSubstr("row 1: its field 2 is \"")) << field;
  }
  train(",y,class\n1,2,0\n");  // as pandas writes an index
  EXPECT_EQ(open({}).train->size(), 1);
}

TEST_F(Csv, BrokenFiles) {
  train("1,2,0\n3,\"4,1\n");
  EXPECT_THAT(failure(), HasSubstr("its quotes do not match"));
  train("");
  EXPECT_THAT(failure(), HasSubstr("/d/train.csv: has no row of numbers"));
  train("1\n2\n");
  EXPECT_THAT(failure(), HasSubstr("data.separator: /d/train.csv has one column only"));
  train("1,2,0\n");
  put(storage_, "/d/test.csv", std::string("1,2,3,0\n"));
  EXPECT_THAT(failure(), HasSubstr("/d/test.csv: has 4 columns, and the training set has 3"));
  plan_.path = "/d/other.csv";
  EXPECT_THAT(failure(), HasSubstr("/d/other.csv: there is no such file or folder"));
}

}  // namespace
}  // namespace taxon::data
