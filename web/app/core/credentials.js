// The user name and password for the broker, or a token, kept in this browser tab only and sent as
// credentials. They never appear in a URL, and are gone once the tab is closed or you sign out.
const KEY = "itc.authorization";

export function authorization() {
  return sessionStorage.getItem(KEY);
}

export function keepCredentials(name, password) {
  const bytes = new TextEncoder().encode(`${name}:${password}`);
  sessionStorage.setItem(KEY, `Basic ${btoa(String.fromCharCode(...bytes))}`);
}

export function keepToken(token) {
  sessionStorage.setItem(KEY, `Bearer ${token}`);
}

export function forgetCredentials() {
  sessionStorage.removeItem(KEY);
}
