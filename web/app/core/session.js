// The user who is signed in. The broker decides; the page asks and remembers the answer.
import { computed, signal } from "../../vendor/signals.js";
import { api, onRefused } from "./api.js";
import { sentence } from "./format.js";
import { authorization, forgetCredentials, keepCredentials } from "./credentials.js";
import { returnFromProvider } from "./provider.js";
import { ASK_AGAIN_MS, isOutage } from "./resource.js";

/** undefined while unknown, null when signed out, else the answer of /whoami. */
export const user = signal(undefined);
export const signInError = signal(null);

export const mayWrite = computed(() => Boolean(user.value?.may_write));
/** True if the user signed in with a password; a service may ask for none. */
export const usesPassword = signal(false);
let before; // who was signed in, as far as this page knows

export async function resume() {
  let failure = null; // of a sign-in through the provider
  await returnFromProvider().catch((error) => (failure = sentence(error.reason ?? error.message)));
  try {
    user.value = await api.whoami();
    usesPassword.value = Boolean(authorization());
    signInError.value = null;
  } catch (error) {
    const hadCredentials = Boolean(authorization());
    if (error.status === 401) forgetCredentials();
    signInError.value = error.status === 401 && !hadCredentials ? null : sentence(error.reason);
    signInError.value ??= failure;
    // Signed in before an outage: wait for it to end; another password would not help.
    if (hadCredentials && isOutage(error)) setTimeout(resume, ASK_AGAIN_MS);
    else user.value = null;
  }
}

/** Asks again: virtual hosts and rights may change while the page is open. */
export async function reloadUser(signal) {
  const answer = await api.whoami(signal);
  const now = user.peek();
  if (answer.name === now?.name && JSON.stringify(answer) !== JSON.stringify(now)) user.value = answer;
}

export async function signIn(name, password) {
  keepCredentials(name, password);
  signInError.value = null;
  try {
    const answer = await api.whoami();
    // The page forgets everything that another user was shown.
    if (before !== undefined && answer.name !== before) return location.reload();
    usesPassword.value = true;
    user.value = answer;
  } catch (error) {
    forgetCredentials();
    signInError.value = sentence(error.reason);
  }
}

/** After a 401: signs out only if the user is no longer accepted at all. */
async function checkStillKnown() {
  if (!user.peek() || checking) return;
  checking = true;
  try {
    await api.whoami();
  } catch (error) {
    if (error.status === 401) {
      signOut();
      signInError.value = sentence(error.reason);
    }
  }
  checking = false;
}

let checking = false;
onRefused(checkStillKnown);

export function signOut() {
  before = user.peek()?.name ?? before;
  forgetCredentials();
  signInError.value = null;
  user.value = null;
}
