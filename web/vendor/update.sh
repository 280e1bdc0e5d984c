#!/bin/sh
# Takes the vendored libraries anew from npm, by package name and version, and rewrites what a
# browser cannot resolve by itself: bare import names become relative paths (an import map would
# have to be an inline script, which the Content-Security-Policy forbids).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cd "$work"
npm init -y >/dev/null 2>&1
npm install --no-audit --no-fund --no-package-lock --ignore-scripts --silent \
  preact@11.2.0 htm@3.1.1 @preact/signals@2.11.4 @preact/signals-core@1.14.5 \
  @fontsource-variable/inter@5.3.0

relative() {
  sed -e 's|from *"preact"|from"./preact.js"|g' \
      -e 's|from *"preact/hooks"|from"./hooks.js"|g' \
      -e 's|from *"@preact/signals-core"|from"./signals-core.js"|g' \
      -e 's|//# sourceMappingURL=.*||' "$1"
}

modules=node_modules
relative $modules/preact/dist/preact.mjs >"$here/preact.js"
relative $modules/preact/hooks/dist/hooks.mjs >"$here/hooks.js"
relative $modules/htm/dist/htm.mjs >"$here/htm.js"
relative $modules/@preact/signals/dist/signals.mjs >"$here/signals.js"
relative $modules/@preact/signals-core/dist/signals-core.mjs >"$here/signals-core.js"

# Of the font only what the page writes itself: other scripts come from the system's fonts.
python3 -m venv fonts
fonts/bin/pip install --quiet fonttools==4.68.0 brotli==1.2.1
fonts/bin/fonttools varLib.instancer --quiet \
  $modules/@fontsource-variable/inter/files/inter-latin-wght-normal.woff2 \
  wght=400:650 --output inter.ttf
fonts/bin/pyftsubset inter.ttf --flavor=woff2 --layout-features=tnum,kern \
  --unicodes=U+0020-007E,U+00A0,U+00A7,U+00AB,U+00B0,U+00B1,U+00B5,U+00B7,U+00BB,U+00BF-00FF,U+2013,U+2014,U+2018-201D,U+2026,U+2190-2193,U+2212 \
  --output-file="$here/inter.woff2"

for name in preact htm; do cp "$modules/$name/LICENSE" "$here/LICENSE.$name"; done
cp $modules/@preact/signals/LICENSE "$here/LICENSE.signals"
cp $modules/@fontsource-variable/inter/LICENSE "$here/LICENSE.inter"

if grep -E 'from *"[^./]' "$here"/*.js; then
  echo "a bare import is left: add it to relative()" >&2
  exit 1
fi
