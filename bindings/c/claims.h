// SPDX-License-Identifier: Apache-2.0
// What each launcher's variables say of this process: a claim. Which of several claims counts is decided
// elsewhere (foreign_job). Pure: reads variables through the given function. Any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/config.h"
#include "lib/starters.h"
#include "lib/status.h"
#include "lib/types.h"

namespace rondel::c {

struct Claim {
  const Starter* starter;
  std::optional<Rank> rank;  ///< at least one of the two is there
  std::optional<Rank> size;
  std::optional<Rank> local_rank;
  std::optional<Rank> local_size;

  bool complete() const { return rank && size; }
  bool contradicts(const Claim& other) const;
  /// "srun (SLURM_PROCID=0, SLURM_STEP_NUM_TASKS=2)"
  std::string text() const;
  std::string variables() const;
  /// "SLURM_PROCID, SLURM_STEP_NUM_TASKS"
  std::string names() const;
};

/// The claim of `starter`, nullopt when its variables are not there. invalid_argument names the variable that
/// makes no sense.
Result<std::optional<Claim>> claim_of(const Starter& starter, const Lookup& lookup);

/// All of them but rondelrun's, those whose jobs have names first.
Result<std::vector<Claim>> foreign_claims(const Lookup& lookup);

}  // namespace rondel::c
