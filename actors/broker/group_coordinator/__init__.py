"""The group coordinator of a broker: the classic group protocol on ``__consumer_offsets``
(``group-coordinator/.../coordinator/group``)."""
