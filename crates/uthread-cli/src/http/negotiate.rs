//! `Accept-Encoding`: the codings that a client accepts, best first (RFC 9110, section 12.5.3).

/// Content codings, in the server's order of preference: the smallest result first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    Brotli,
    Zstd,
    Gzip,
    Identity,
}

impl Coding {
    const ALL: [Coding; 4] = [Coding::Brotli, Coding::Zstd, Coding::Gzip, Coding::Identity];

    /// Returns the name in `Accept-Encoding` and `Content-Encoding`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Coding::Brotli => "br",
            Coding::Zstd => "zstd",
            Coding::Gzip => "gzip",
            Coding::Identity => "identity",
        }
    }

    /// Returns the suffix of files in this coding.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Coding::Brotli => ".br",
            Coding::Zstd => ".zst",
            Coding::Gzip => ".gz",
            Coding::Identity => "",
        }
    }

    fn names(self, token: &[u8]) -> bool {
        token.eq_ignore_ascii_case(self.name().as_bytes())
            || (self == Coding::Gzip && token.eq_ignore_ascii_case(b"x-gzip"))
    }
}

/// Weights are in thousandths, because HTTP allows three decimals.
const WEIGHT_MAX: u16 = 1000;

/// Returns the acceptable codings, best first. Identity is missing only if the client refuses it.
pub(crate) fn rank<'a>(fields: impl Iterator<Item = &'a [u8]>) -> impl Iterator<Item = Coding> {
    let mut named: [Option<u16>; 4] = [None; 4];
    let mut others: Option<u16> = None;
    for item in fields.flat_map(|field| field.split(|&byte| byte == b',')) {
        let mut pieces = item.split(|&byte| byte == b';');
        let token = pieces.next().unwrap_or_default().trim_ascii();
        let Some(weight) = weight(pieces.next()) else {
            continue;
        };
        if token == b"*" {
            others = Some(weight);
        }
        for (index, coding) in Coding::ALL.into_iter().enumerate() {
            if coding.names(token) {
                named[index] = Some(weight);
            }
        }
    }
    let mut ranked = Coding::ALL.map(|coding| {
        // If not mentioned, identity is acceptable with the lowest preference, and other codings
        // are not.
        let unsaid = match coding {
            Coding::Identity => others.map_or(1, |weight| weight.min(1)),
            _ => others.unwrap_or(0),
        };
        (named[coding as usize].unwrap_or(unsaid), coding)
    });
    // Stable, to keep the server's order among equals.
    ranked.sort_by_key(|&(weight, _)| WEIGHT_MAX - weight);
    ranked
        .into_iter()
        .filter(|&(weight, _)| weight > 0)
        .map(|(_, coding)| coding)
}

/// Parses the weight in `q=0.5`; 1 if absent, `None` if invalid.
fn weight(parameter: Option<&[u8]>) -> Option<u16> {
    let Some(parameter) = parameter else {
        return Some(WEIGHT_MAX);
    };
    let value = match parameter.trim_ascii() {
        [b'q' | b'Q', b'=', value @ ..] => value,
        _ => return None,
    };
    let (whole, decimals) = match value {
        [whole @ (b'0' | b'1')] => (whole, &b""[..]),
        [whole @ (b'0' | b'1'), b'.', decimals @ ..] if decimals.len() <= 3 => (whole, decimals),
        _ => return None,
    };
    let mut weight = u16::from(whole - b'0');
    for index in 0..3 {
        let digit = *decimals.get(index).unwrap_or(&b'0');
        weight = weight * 10 + u16::from(digit.is_ascii_digit().then(|| digit - b'0')?);
    }
    (weight <= WEIGHT_MAX).then_some(weight)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(field: &str, expected: &str) {
        let found: Vec<&str> = rank([field.as_bytes()].into_iter())
            .map(Coding::name)
            .collect();
        assert_eq!(found.join(" "), expected, "{field}");
    }

    #[test]
    fn rankings() {
        check("gzip, deflate, br, zstd", "br zstd gzip identity");
        check("gzip", "gzip identity");
        check("x-gzip", "gzip identity");
        check("GZIP;Q=1", "gzip identity");
        check("br;q=0.5, gzip;q=0.8", "gzip br identity");
        check("br;q=0, gzip", "gzip identity");
        check("gzip;q=0", "identity");
        check("", "identity");
        check("*", "br zstd gzip identity");
        check("*;q=0.5, br;q=0.1", "zstd gzip br identity");
        check("*;q=0", "");
        check("gzip, *;q=0", "gzip");
        check("gzip, identity;q=0", "gzip");
        check("identity;q=0", "");
        check("identity, gzip;q=0.5", "identity gzip");
        check("identity;q=0.5, *;q=0", "identity");
    }

    #[test]
    fn weights_that_cannot_be_read_leave_the_item_out() {
        for field in [
            "gzip;q=",
            "gzip;q=2",
            "gzip;q=1.5",
            "gzip;q=0.1234",
            "gzip;q=-1",
            "gzip;v=1",
        ] {
            check(field, "identity");
        }
    }

    #[test]
    fn several_lines_are_one_list() {
        let lines = [&b"gzip;q=0.1"[..], b"br"];
        let found: Vec<Coding> = rank(lines.into_iter()).collect();
        assert_eq!(found, [Coding::Brotli, Coding::Gzip, Coding::Identity]);
    }
}
