"""Does the service tell the truth of what the broker does? `python -m drills.acts` asks it.

Programs (`programs`) publish, take, reject, give back, replay and die on queues with delays, dead
letters, length limits and purges (`topology`), and log what they did (`log`). A judge (`judge`)
that reads these logs alone says of each two events whether one surely influenced the other, and
whether it possibly did. The service (`asking`) must not say "caused" of what was not possible, nor
"cannot have" of what was sure (`verdict`). Where nothing dies, and programs name causes of which
they heard outside the broker (`hearsay`), all that is possible is sure: there clocks must say just
that.
"""
