// Signals in mapped memory, and that no wake-up is lost between who goes to sleep and who raises.
#include "net/wire/signal_page.h"

#include <gtest/gtest.h>

#include <array>
#include <semaphore>
#include <thread>

namespace taxon::net {
namespace {

enum class Fences { Each, Owner };

struct SignalPageTest : testing::TestWithParam<Fences> {
  SignalPageTest() {
    if (GetParam() == Fences::Owner && fence == RemoteFence::Available) page.announce_fences();
  }
  void SetUp() override {
    if (GetParam() == Fences::Owner && fence == RemoteFence::Unavailable)
      GTEST_SKIP() << "the kernel offers no membarrier";
  }
  const RemoteFence fence = join_remote_fences();
  alignas(SignalPage::kLine) std::array<std::byte, SignalPage::bytes_for(3)> memory{};
  const SignalPage page{View(memory.data(), memory.size())};
};

TEST_P(SignalPageTest, HoldsWhatWasRaised) {
  page.raise(0, 7);
  page.raise(2, 1);
  EXPECT_EQ(page.value(0), 7u);
  EXPECT_EQ(page.value(1), 0u);
  EXPECT_EQ(page.value(2), 1u);
}

TEST_P(SignalPageTest, OneRaiserWakesASleeper) {
  page.raise(0, 1);
  EXPECT_FALSE(page.must_wake(fence));
  page.announce_sleep();
  page.raise(0, 2);
  EXPECT_TRUE(page.must_wake(fence));
  page.raise(1, 1);
  EXPECT_FALSE(page.must_wake(fence)) << "another one does it already";
  page.announce_sleep();
  page.announce_awake();
  page.raise(0, 3);
  EXPECT_FALSE(page.must_wake(fence));
}

TEST_P(SignalPageTest, NoWakeUpIsLost) {
  constexpr std::uint64_t kRounds = 20000;
  std::counting_semaphore<> woken(0);
  std::jthread raiser([&] {
    for (std::uint64_t round = 1; round <= kRounds; ++round) {
      while (page.value(1) < round) std::this_thread::yield();  // until the owner is about to sleep
      page.raise(0, round);
      if (page.must_wake(fence)) woken.release();
    }
  });
  bool lost = false;
  for (std::uint64_t round = 1; round <= kRounds; ++round) {
    page.raise(1, round);
    page.announce_sleep();
    if (page.value(0) < round) lost = lost || !woken.try_acquire_for(std::chrono::minutes(2));
    page.announce_awake();
    while (page.value(0) < round) std::this_thread::yield();
    while (woken.try_acquire()) {
    }  // of a raiser that saw the announcement late
  }
  EXPECT_FALSE(lost);
}

INSTANTIATE_TEST_SUITE_P(, SignalPageTest, testing::Values(Fences::Each, Fences::Owner),
                         [](const auto& tested) {
                           return tested.param == Fences::Each ? "EachItsOwn" : "ByTheOwner";
                         });

}  // namespace
}  // namespace taxon::net
