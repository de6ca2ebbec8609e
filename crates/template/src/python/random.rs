//! CPython's `random.Random`: the Mersenne Twister with Python's seeding and drawing, so that a seed yields the same
//! choices.

use minijinja::Value;
use sha2::{Digest, Sha512};

use super::number;

const SIZE: usize = 624;
const MIDDLE: usize = 397;

/// A random generator.
#[derive(Debug)]
pub(crate) struct Random {
    source: Source,
}

#[derive(Debug)]
enum Source {
    /// The operating system's generator, if there is no seed.
    System,
    Seeded {
        state: Box<[u32; SIZE]>,
        index: usize,
    },
}

impl Random {
    /// `random.Random(seed)`, or `random.SystemRandom()` without a seed.
    pub(crate) fn new(seed: Option<&Value>) -> Random {
        let key = match seed {
            None => return Random { source: Source::System },
            Some(seed) if seed.is_none() => return Random { source: Source::System },
            Some(seed) => match seed.as_str() {
                Some(text) => text_key(text),
                None if seed.is_integer() || seed.kind() == minijinja::value::ValueKind::Bool => {
                    let number = number::to_int(seed).unwrap_or_default().unsigned_abs();
                    words_from_little_endian(&number.to_le_bytes())
                }
                None => {
                    let bits = float_hash(number::as_float(seed).unwrap_or_default());
                    words_from_little_endian(&bits.unsigned_abs().to_le_bytes())
                }
            },
        };
        Random { source: seeded(&key) }
    }

    /// `getrandbits(count)` for up to 128 bits.
    fn bits(&mut self, count: u32) -> u128 {
        let mut value = 0u128;
        let mut done = 0;
        while done < count {
            let take = (count - done).min(32);
            value |= u128::from(self.word() >> (32 - take)) << done;
            done += take;
        }
        value
    }

    /// A number below `bound`, which must not be 0.
    pub(crate) fn below(&mut self, bound: u128) -> u128 {
        let bits = 128 - bound.leading_zeros();
        loop {
            let value = self.bits(bits);
            if value < bound {
                return value;
            }
        }
    }

    /// An index into `length` items; `length` must not be 0.
    pub(crate) fn index(&mut self, length: usize) -> usize {
        self.below(length as u128) as usize
    }

    /// `shuffle(items)`.
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.index(last + 1);
            items.swap(last, other);
        }
    }

    fn word(&mut self) -> u32 {
        match &mut self.source {
            // Without random numbers, nothing that depends on them may continue.
            Source::System => getrandom::u32().expect("the operating system gives random numbers"),
            Source::Seeded { state, index } => {
                if *index >= SIZE {
                    twist(state);
                    *index = 0;
                }
                let mut word = state[*index];
                *index += 1;
                word ^= word >> 11;
                word ^= (word << 7) & 0x9d2c_5680;
                word ^= (word << 15) & 0xefc6_0000;
                word ^ (word >> 18)
            }
        }
    }
}

/// Python seeds with the text's bytes followed by their SHA-512, read as one big number.
fn text_key(text: &str) -> Vec<u32> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.extend_from_slice(&Sha512::digest(text.as_bytes()));
    bytes.reverse();
    words_from_little_endian(&bytes)
}

fn words_from_little_endian(bytes: &[u8]) -> Vec<u32> {
    let word = |chunk: &[u8]| chunk.iter().rev().fold(0, |word, &byte| (word << 8) | u32::from(byte));
    let mut words: Vec<u32> = bytes.chunks(4).map(word).collect();
    while words.len() > 1 && words.last() == Some(&0) {
        words.pop();
    }
    words
}

/// `hash(float)`: the number modulo the prime 2**61 - 1.
fn float_hash(number: f64) -> i64 {
    const PRIME_BITS: i32 = 61;
    const PRIME: u64 = (1 << PRIME_BITS) - 1;
    if !number.is_finite() {
        return if number.is_nan() {
            0
        } else if number > 0.0 {
            314_159
        } else {
            -314_159
        };
    }
    let mut mantissa = number.abs();
    let mut exponent = 0i32;
    while mantissa >= 1.0 {
        mantissa /= 2.0;
        exponent += 1;
    }
    while mantissa != 0.0 && mantissa < 0.5 {
        mantissa *= 2.0;
        exponent -= 1;
    }
    let mut hash = 0u64;
    while mantissa != 0.0 {
        hash = ((hash << 28) & PRIME) | (hash >> (PRIME_BITS - 28));
        mantissa *= 268_435_456.0;
        exponent -= 28;
        let digit = mantissa as u64;
        mantissa -= digit as f64;
        hash += digit;
        if hash >= PRIME {
            hash -= PRIME;
        }
    }
    let shift = exponent.rem_euclid(PRIME_BITS);
    hash = ((hash << shift) & PRIME) | (hash >> (PRIME_BITS - shift));
    if number < 0.0 { -(hash as i64) } else { hash as i64 }
}

fn seeded(key: &[u32]) -> Source {
    let mut state = Box::new([0u32; SIZE]);
    state[0] = 19_650_218;
    for index in 1..SIZE {
        let previous = state[index - 1];
        state[index] = 1_812_433_253u32.wrapping_mul(previous ^ (previous >> 30)).wrapping_add(index as u32);
    }
    let mut at = 1;
    let mut from = 0;
    for _ in 0..SIZE.max(key.len()) {
        let previous = state[at - 1];
        state[at] = (state[at] ^ (previous ^ (previous >> 30)).wrapping_mul(1_664_525))
            .wrapping_add(key[from])
            .wrapping_add(from as u32);
        at += 1;
        from = (from + 1) % key.len();
        if at >= SIZE {
            state[0] = state[SIZE - 1];
            at = 1;
        }
    }
    for _ in 1..SIZE {
        let previous = state[at - 1];
        state[at] = (state[at] ^ (previous ^ (previous >> 30)).wrapping_mul(1_566_083_941)).wrapping_sub(at as u32);
        at += 1;
        if at >= SIZE {
            state[0] = state[SIZE - 1];
            at = 1;
        }
    }
    state[0] = 0x8000_0000;
    Source::Seeded { state, index: SIZE }
}

fn twist(state: &mut [u32; SIZE]) {
    for index in 0..SIZE {
        let joined = (state[index] & 0x8000_0000) | (state[(index + 1) % SIZE] & 0x7fff_ffff);
        let odd = if joined & 1 == 1 { 0x9908_b0df } else { 0 };
        state[index] = state[(index + MIDDLE) % SIZE] ^ (joined >> 1) ^ odd;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeded_choices_match_cpython() {
        let draw = |seed: Value| {
            let mut random = Random::new(Some(&seed));
            [random.below(1000), random.below(60), random.below(1 << 40)]
        };
        assert_eq!(draw(Value::from("abc")), EXPECTED[0]);
        assert_eq!(draw(Value::from(42)), EXPECTED[1]);
        assert_eq!(draw(Value::from(2.5)), EXPECTED[2]);
    }

    const EXPECTED: [[u128; 3]; 3] = [[790, 35, 781328735432], [654, 7, 538052153943], [428, 21, 26534907291]];
}
