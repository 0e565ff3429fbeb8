"""What the demo asks a person."""

from django import forms


class ApprovalForm(forms.Form):
    """Ask whether the report may be booked and recorded."""

    decision = forms.ChoiceField(choices={"approve": "Approve the report", "reject": "Reject it"})
    note = forms.CharField(max_length=200, required=False)
