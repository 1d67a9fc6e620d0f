//! Values that nobody expects, somewhere within a value that somebody does.

use serde_json::{Value, json};

/// Changes one value somewhere within.
pub fn spoil(value: &mut Value, random: &mut fastrand::Rng) {
    let inside = match value {
        Value::Object(map) if !map.is_empty() => {
            let at = random.usize(0..map.len());
            map.values_mut().nth(at)
        }
        Value::Array(list) if !list.is_empty() => {
            let at = random.usize(0..list.len());
            list.get_mut(at)
        }
        _ => None,
    };
    if let Some(inside) = inside.filter(|_| random.u8(0..4) > 0) {
        return spoil(inside, random);
    }
    *value = match random.u8(0..11) {
        0 => Value::Null,
        1 => json!(random.u64(..)),
        2 => json!(-1.5e300),
        3 => json!("\u{0}\u{202e}\u{7f}<@1><@&99999999999999999999><https://x|y>\n```"),
        4 => json!("x".repeat(random.usize(0..5_000))),
        5 => json!([[[{ "id": {} }]]]),
        6 => json!({ "id": "18446744073709551615", "parent_id": "0" }),
        7 => json!(true),
        8 => json!("18446744073709551615"),
        9 => json!(i64::MIN),
        _ => json!({}),
    };
}
