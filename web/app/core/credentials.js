// The broker's user name and password, kept for this browser tab alone and sent as Basic
// credentials. They never enter a URL, and go with the tab or with "Sign out".
const KEY = "itc.authorization";

export function authorization() {
  return sessionStorage.getItem(KEY);
}

export function keepCredentials(name, password) {
  const bytes = new TextEncoder().encode(`${name}:${password}`);
  sessionStorage.setItem(KEY, `Basic ${btoa(String.fromCharCode(...bytes))}`);
}

export function forgetCredentials() {
  sessionStorage.removeItem(KEY);
}
