//! The place where the operation of a token has waited last.

use super::Token;

/// Indexed by the token's slot, so no longer than the number of operations in flight. An entry
/// remains after the wait: check whether the token still waits.
pub(super) struct TokenMap<T>(Vec<Option<T>>);

impl<T> Default for TokenMap<T> {
    fn default() -> TokenMap<T> {
        TokenMap(Vec::new())
    }
}

impl<T: Copy> TokenMap<T> {
    pub(super) fn insert(&mut self, token: Token, place: T) {
        let index = token.index();
        if index >= self.0.len() {
            self.0.resize(index + 1, None);
        }
        self.0[index] = Some(place);
    }

    pub(super) fn get(&self, token: Token) -> Option<T> {
        self.0.get(token.index()).copied().flatten()
    }
}
