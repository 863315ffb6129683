//! How long to wait before the next attempt.

use std::time::Duration;

use crate::sync::Mutex;

/// Exponential backoff with jitter: attempt n waits between half and all of
/// min(`max`, `base` × 2ⁿ), n = 0 for the first retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// Longest wait before the first retry.
    pub base: Duration,
    /// Longest wait before any retry.
    pub max: Duration,
}

impl Backoff {
    /// The wait before retry number `n`, counted from 0.
    pub fn delay(&self, n: u32, randomness: &Randomness) -> Duration {
        let factor = 2_u32.checked_pow(n).unwrap_or(u32::MAX);
        let whole = self.base.saturating_mul(factor).min(self.max);
        whole.mul_f64(0.5 + 0.5 * randomness.fraction())
    }
}

/// The one source of chance, made from a seed so that a simulation can be replayed.
#[derive(Debug)]
pub struct Randomness(Mutex<fastrand::Rng>);

impl Randomness {
    /// Makes it from a seed.
    pub fn from_seed(seed: u64) -> Self {
        Self(Mutex::new(fastrand::Rng::with_seed(seed)))
    }

    /// Makes it from the operating system's randomness.
    pub fn from_entropy() -> Self {
        Self(Mutex::new(fastrand::Rng::new()))
    }

    /// A number from 0 up to 1, without 1.
    pub fn fraction(&self) -> f64 {
        self.0.lock().f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn waits_between_half_and_all(n in 0_u32..200, base_ms in 1_u64..10_000, max_ms in 1_u64..1_000_000, seed: u64) {
            let backoff = Backoff { base: Duration::from_millis(base_ms), max: Duration::from_millis(max_ms) };
            let whole = u128::from(base_ms) << n.min(64);
            let whole = Duration::from_millis(u64::try_from(whole.min(u128::from(max_ms))).unwrap_or(max_ms));
            let delay = backoff.delay(n, &Randomness::from_seed(seed));
            prop_assert!(delay <= whole && delay + Duration::from_nanos(1) >= whole / 2, "{delay:?} of {whole:?}");
        }
    }
}
