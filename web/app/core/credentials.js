// The user name and password for the broker, or a token, kept in this browser tab only and sent as
// credentials. They never appear in a URL, and are gone once the tab is closed or you sign out, as are the last
// answers, which are shown until there are new ones.
const KEY = "itc.authorization";
const ANSWER = "itc.answer.";

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
  for (const key of Object.keys(sessionStorage)) if (key === KEY || key.startsWith(ANSWER)) sessionStorage.removeItem(key);
}

export function keepAnswer(key, answer) {
  try {
    sessionStorage.setItem(ANSWER + key, JSON.stringify(answer));
  } catch {
    sessionStorage.removeItem(ANSWER + key); // there is no room
  }
}

export const lastAnswer = (key) => JSON.parse(sessionStorage.getItem(ANSWER + key));
