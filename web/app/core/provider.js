// Sign-in through the broker's identity provider: OAuth 2, code flow with PKCE. The code comes back in the
// page's address; the service exchanges it, so the page speaks with nobody else.
import { api } from "./api.js";
import { keepToken } from "./credentials.js";

const KEY = "itc.sign-in"; // what was sent with the browser, until it comes back

const base64url = (bytes) =>
  btoa(String.fromCharCode(...bytes)).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
const random = () => base64url(crypto.getRandomValues(new Uint8Array(32)));

/** The address that the provider sends the browser back to: this page, without query and fragment. */
const here = () => location.origin + location.pathname;

/** The endpoint, our name and the scopes, or null where nobody signs in through a provider. */
export async function findProvider(signal) {
  const ways = await api.signInWays(signal);
  return ways.authorization_endpoint ? ways : null;
}

/** Sends the browser to the provider. */
export async function leaveForProvider({ authorization_endpoint: endpoint, client_id, scope }) {
  if (!crypto.subtle) throw new Error("Sign-in through the provider needs https, or localhost.");
  const [verifier, state] = [random(), random()];
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier));
  sessionStorage.setItem(KEY, JSON.stringify({ verifier, state, hash: location.hash }));
  const url = new URL(endpoint);
  const parameters = {
    response_type: "code", client_id, scope, state, redirect_uri: here(),
    code_challenge: base64url(new Uint8Array(digest)), code_challenge_method: "S256",
  };
  for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value);
  location.assign(url);
}

/** Takes the code that the browser came back with, if it did; throws what went wrong. */
export async function returnFromProvider() {
  const sent = JSON.parse(sessionStorage.getItem(KEY) ?? "null");
  const answer = new URLSearchParams(location.search);
  if (!answer.has("state") || !(answer.has("code") || answer.has("error"))) return;
  sessionStorage.removeItem(KEY);
  // Neither the code nor the state stays in the address, or in the browser's history.
  history.replaceState(null, "", location.pathname);
  if (sent?.hash) location.replace(sent.hash);
  if (sent?.state !== answer.get("state")) throw new Error("This sign-in was not begun in this tab: try again.");
  if (answer.has("error")) {
    throw new Error(`The identity provider refuses: ${answer.get("error_description") ?? answer.get("error")}`);
  }
  const body = { code: answer.get("code"), verifier: sent.verifier, redirect_uri: here() };
  keepToken((await api.redeem(body)).access_token);
}
